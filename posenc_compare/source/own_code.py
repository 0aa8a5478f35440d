"""The code that a scheme, a measure or a task counts by in the keys of records.

For a built-in thing it is the definition under its decorator, with all that this one
names; for one of a plugin, the plugin's module and all modules that it imports. What
this package shares (attention, trainer, helpers) counts by `NUMBERS` alone.
"""

from posenc_compare.registry import Entry
from posenc_compare.source.built_in import Code, built_in_code
from posenc_compare.source.files import OURS
from posenc_compare.source.plugin import plugin_code

NUMBERS = 2
"""Raise it when shared code changes a number; `tests/pinned` tells when that is so."""


def own_code(entry: Entry) -> Code:
    """Return what a registered thing counts by; nothing if it is from no file."""
    if entry.path is None:
        return Code()
    if entry.module.split(".")[0] == OURS:
        return built_in_code(entry.module, entry.path, entry.definition)
    return plugin_code(entry.given, (entry.module, entry.path), entry.definition)
