"""The code that identifies a scheme, measure or task in the keys of records.

For a built-in one, this is the definition under its decorator, with all definitions
that it names. For one of a plugin, it is the plugin's module and all modules that it
imports. Code that this package shares (attention, trainer, helpers) is identified by
`NUMBERS` alone, unless it is edited (see `edits`).
"""

from posenc_compare.source.built_in import Code, built_in_code
from posenc_compare.source.entry import Entry
from posenc_compare.source.files import OURS
from posenc_compare.source.plugin import plugin_code

NUMBERS = 2
"""Raise it when shared code changes a number; `tests/pinned` tells when that is so."""


def own_code(entry: Entry) -> Code:
    """Return the code that identifies an entry; nothing if it is from no file."""
    if entry.path is None:
        return Code()
    if entry.module.split(".")[0] == OURS:
        return built_in_code(entry.module, entry.path, entry.definition)
    return plugin_code(entry.given, (entry.module, entry.path), entry.definition)
