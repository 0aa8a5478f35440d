"""What is known of a registered scheme, measure, task or plot."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One registered thing.

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
