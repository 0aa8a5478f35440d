"""A cell: one measure of one variant under one setting, fully specified.

The key of a cell is the hash of its specification: the scheme and the measure with
their own code, the setting, torch's major and minor version, `NUMBERS`, what was edited
in this package, and the name of a GPU.
"""

import functools
import hashlib
import importlib.metadata
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
from posenc_compare.source.own_code import NUMBERS
from posenc_compare.validate import check_choice
from posenc_compare.variants import Variant, named_in


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
                _code(map(SCHEMES.entry, self.variant.schemes)),
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
    names = sorted({*cell.variant.schemes, *_schemes_beside(cell)})
    return [*map(SCHEMES.entry, names), *_measured_by(cell)]


def plugins_of(cell: Cell) -> list[Entry]:
    """Return what takes part in a cell and is not imported by every worker."""
    own = (SCHEMES, MEASURES, TASKS)
    return [e for e in entries_of(cell) if not any(r.owns(e.module) for r in own)]


def _code(entries: Iterable[Entry]) -> str:
    """Return one hash of the own code of registered things."""
    parts = [f"{entry.own_code.sha256} \n" for entry in entries]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _measured_by(cell: Cell) -> list[Entry]:
    """Return the measure of a cell, and its task if a network is trained."""
    task = cell.setting.task
    return [MEASURES.entry(cell.measure), *([TASKS.entry(task)] if task else [])]


def _schemes_beside(cell: Cell) -> list[str]:
    """Return the schemes that a plugin's measure or task names, as to compare with."""
    plugins = [e for e in _measured_by(cell) if not e.ours]
    names = {name for e in plugins for name in named_in(e) if name in SCHEMES}
    return sorted({inside for name in names for inside in Variant(name).schemes})
