"""A cell: one measure of one variant under one setting, fully specified.

The key of a cell is the hash of its specification: the scheme and the measure with
their own code, the setting, torch's major and minor version, `NUMBERS`, what was edited
in this package, and the name of a GPU.
"""

import ast
import functools
import hashlib
import importlib.metadata
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from posenc_compare.records.record import (
    MeasureSpec,
    Record,
    SchemeSpec,
    Spec,
    measured,
)
from posenc_compare.registry import MEASURES, SCHEMES, SETTINGS, TASKS, Entry
from posenc_compare.settings.canonical import spec_key
from posenc_compare.settings.setting import Setting
from posenc_compare.source.edits import shared_edits
from posenc_compare.source.files import OURS
from posenc_compare.source.own_code import NUMBERS, own_code
from posenc_compare.validate import check_choice
from posenc_compare.variants import Variant


@dataclass(frozen=True)
class Cell:
    """One measure of one variant under one setting."""

    variant: Variant
    measure: str
    setting: Setting
    threads: int  # of the CPU
    graphics: str = ""  # name of the GPU; empty if the setting's device is none

    def spec(self) -> Spec:
        """Return everything the result depends on."""
        return Spec(
            SchemeSpec(
                self.variant.name,
                self.variant.options,
                _code(map(SCHEMES.entry, schemes_of(self.variant))),
            ),
            MeasureSpec(
                self.measure,
                MEASURES.entry(self.measure).facts.get("version", 1),
                _code(
                    [*_measured_by(self), *map(SCHEMES.entry, _schemes_beside(self))]
                ),
            ),
            self.setting.spec(),
            self.threads,
            NUMBERS,
            _torch_version(),
            self.graphics,
            shared_edits(),
        )

    @property
    def measured(self) -> str:
        """Return its measure, with the task if that is not language."""
        return measured(self.measure, self.setting.task)

    def key(self) -> str:
        """Return the 32 hex digits that name this cell."""
        return spec_key(self.spec().to_json())

    def record(self) -> Record:
        """Return the record of this cell with nothing in it yet."""
        spec = self.spec()
        return Record(
            spec_key(spec.to_json()),
            spec,
            self.variant.label,
            self.variant.family,
            SCHEMES.entry(self.variant.name).facts.get("source", ""),
        )


def cell_of(spec: Spec, places: Sequence[str]) -> Cell:
    """Return the cell of a specification; a training finds its texts at `places`."""
    name = spec.measure.name
    return Cell(
        Variant(spec.scheme.name, spec.scheme.options),
        name,
        setting_of(name).of(spec.setting, places),
        spec.threads,
        spec.graphics,
    )


def setting_of(measure: str) -> type[Setting]:
    """Return the kind of setting that a measure takes."""
    kind = MEASURES.entry(measure).facts.get("setting", "probe")
    check_choice(f"setting of {measure}", kind, tuple(SETTINGS.entries()))
    return SETTINGS.get(kind)


@functools.cache
def _torch_version() -> str:
    """Return torch's major and minor version."""
    return ".".join(importlib.metadata.version("torch").split(".")[:2])


def entries_of(cell: Cell) -> list[Entry]:
    """Return what was registered and takes part in a cell."""
    names = sorted({*schemes_of(cell.variant), *_schemes_beside(cell)})
    return [*map(SCHEMES.entry, names), *_measured_by(cell)]


def plugins_of(cell: Cell) -> list[Entry]:
    """Return what takes part in a cell and is not imported by every worker."""
    own = (SCHEMES, MEASURES, TASKS)
    return [e for e in entries_of(cell) if not any(r.owns(e.module) for r in own)]


def schemes_of(variant: Variant) -> list[str]:
    """Return the names of the scheme and of all that may be inside it, sorted.

    Those are the ones that options or calls name and, since a plugin may name one in
    ways that nobody can read off, those that any text in its code names.
    """
    return _with_inside(variant.schemes)


def _with_inside(names: Iterable[str]) -> list[str]:
    """Return schemes with all that their plugins name, sorted."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        found.add(name := waiting.pop())
        waiting |= _named_in(SCHEMES.entry(name)) - found
    return sorted(found)


def _named_in(entry: Entry) -> set[str]:
    """Return the schemes that any text in the code of a plugin names, and theirs.

    Options may stand behind a name. What this package holds builds none but those of
    its options.
    """
    texts: set[str] = set()
    if not entry.module.startswith(f"{OURS}."):
        nodes = (n for part in own_code(entry).statements for n in ast.walk(part))
        values = (n.value for n in nodes if isinstance(n, ast.Constant))
        texts = {value for value in values if isinstance(value, str)}
    whole = (text for text in texts if " " not in text)
    names = {word for text in whole for word in re.split(r"[:;=,+()]", text)}
    named = (Variant(name).schemes for name in names if name in SCHEMES)
    return {inside for schemes in named for inside in schemes}


def _code(entries: Iterable[Entry]) -> str:
    """Return one hash of the own code of registered things."""
    parts = [f"{own_code(entry).sha256} \n" for entry in entries]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _measured_by(cell: Cell) -> list[Entry]:
    """Return the measure of a cell, and its task if a network is trained."""
    task = cell.setting.task
    return [MEASURES.entry(cell.measure), *([TASKS.entry(task)] if task else [])]


def _schemes_beside(cell: Cell) -> list[str]:
    """Return the schemes that a plugin's measure or task names, as to compare with."""
    return _with_inside({n for e in _measured_by(cell) for n in _named_in(e)})
