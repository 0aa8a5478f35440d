"""What a measure is: a pure function of a variant and a setting, and its facts.

A measure returns rows in long form. Each row belongs to a quantity, whose facts say the
unit, which direction is better and what 0 means; the views say what tables show of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from posenc_compare.errors import ConfigError
from posenc_compare.records.quantities import (
    ByCase,
    Curve,
    Floor,
    Headline,
    Quantity,
    Row,
    View,
)
from posenc_compare.registry import MEASURES
from posenc_compare.train.progress import Progress
from posenc_compare.variants import Variant

__all__ = [
    "ByCase",
    "Curve",
    "Floor",
    "Headline",
    "Measure",
    "Quantity",
    "Result",
    "Row",
    "register_measure",
]


@dataclass(frozen=True)
class Result:
    """What a measure returns.

    Attributes:
        rows: the numbers, for tables.
        arrays: nested lists of numbers too many for a table, for plots.
        quantities: facts of those that the setting calls for; none for all of the
            measure's.
    """

    rows: list[Row]
    arrays: dict[str, Any] = field(default_factory=dict)
    quantities: tuple[Quantity, ...] = ()


@dataclass(frozen=True)
class Measure:
    """A measure with its facts.

    Attributes:
        name: registry name.
        version: raised whenever the same input gives another number.
        setting: kind of setting that it takes: `probe`, as a `Probe`, or `training`.
        once: whether one seed is enough, because it draws rather than ranks.
        exclusive: whether nothing else may compute beside it, because one of its
            quantities is not repeatable.
        quantities: facts of every quantity it returns, by name.
        views: what tables show, by name of the quantity; at most one of each.
        compute: `(variant, setting, progress) -> Result`; `progress` takes the units
            of work done, out of `setting.work`.
    """

    name: str
    version: int
    setting: str
    once: bool
    exclusive: bool
    quantities: dict[str, Quantity]
    views: dict[str, View]
    compute: Callable[[Variant, Any, Progress], Result]


def register_measure(
    name: str,
    *,
    quantities: tuple[Quantity, ...],
    views: tuple[View, ...] = (),
    version: int = 1,
    setting: str = "probe",
    once: bool = False,
    exclusive: bool = False,
    extra: bool = False,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """File a measure with its facts under a name; return the function unchanged.

    The arguments are those of `Measure`, and `extra`: whether it is computed only where
    it is named, because it takes as long as all others together.

    Raises:
        ConfigError: if `exclusive` is not what its quantities ask for, or one of them
            has two views.
    """
    seen = {view.quantity.name: view for view in views}
    if len(seen) < len(views):
        raise ConfigError(f"measure {name!r}: a quantity must have at most one view")
    times = not all(quantity.repeatable for quantity in quantities)
    if exclusive != times:
        raise ConfigError(
            f"measure {name!r}: exclusive must be {times}, got {exclusive}; a measure "
            f"with a quantity that is not repeatable runs alone"
        )

    def file(compute: Callable[..., Result]) -> Callable[..., Result]:
        by_name = {quantity.name: quantity for quantity in quantities}
        measure = Measure(
            name, version, setting, once, exclusive, by_name, seen, compute
        )
        facts = {"version": version, "setting": setting, "once": once}
        facts |= {"exclusive": exclusive, "extra": extra}
        MEASURES.add(name, measure, compute, facts)
        return compute

    return file
