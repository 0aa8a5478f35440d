"""A registered thing, and the code that identifies it in the keys of records.

For a built-in one, this is the definition under its decorator, with all definitions
that it names. For one of a plugin, it is the plugin's module and all modules that it
imports. Code that this package shares (attention, trainer, helpers) is identified by
`NUMBERS` alone, unless it is edited (see `edits`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc_compare.source.built_in import Code, built_in_code
from posenc_compare.source.files import OURS
from posenc_compare.source.plugin import plugin_code

NUMBERS = 2
"""Raise it when shared code changes a number; `tests/pinned` tells when that is so."""


@dataclass(frozen=True)
class Entry:
    """One registered scheme, measure, task or plot.

    Attributes:
        name: what the user types.
        item: what is registered.
        summary: first line of the docstring.
        facts: keyword arguments of the decorator.
        module: module that declares it.
        definition: name of the class or function under the decorator.
        origin: where the module comes from, as shown to the user.
        path: source file of the module; None in a notebook.
        given: module that was given as a plugin, and its file; else the module itself.
    """

    name: str
    item: Any
    summary: str
    facts: dict[str, Any]
    module: str
    definition: str
    origin: str
    path: Path | None
    given: tuple[str, Path]

    @property
    def ours(self) -> bool:
        """Return whether this package declares it."""
        return self.module.split(".")[0] == OURS

    @property
    def own_code(self) -> Code:
        """Return the code that identifies it; nothing if it is from no file."""
        if self.path is None:
            return Code()
        if self.ours:
            return built_in_code(self.module, self.path, self.definition)
        return plugin_code(self.given, (self.module, self.path), self.definition)
