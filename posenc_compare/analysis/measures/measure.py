"""What a measure is: a pure function of a variant and a setting, and its facts.

A measure returns rows in long form. Each row belongs to a quantity, whose record of
facts says the unit, which direction is better and what 0 means.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from posenc_compare.analysis.core.progress import Progress
from posenc_compare.errors import ConfigError
from posenc_compare.registry import MEASURES
from posenc_compare.variants import Variant


@dataclass(frozen=True)
class Quantity:
    """Facts of one number that a measure returns.

    Attributes:
        name: as in the tables.
        unit: of the value; "share" is from 0 to 1, "ratio" has no bound.
        better: lower, higher, or neither where the number describes, not ranks.
        zero: what the value 0 means.
        x: what the row's `x` counts, with its unit, if rows form a curve.
        headline: `(case, x)` of the row that the summary shows; `"curve"` for a
            summary table of its own, with a column for each x; `"cases"` for one
            with a row for each scheme and case that has any; or None.
        title: heading of its column in the summary; the name if not given.
        repeatable: whether the same machine gives the same number again, to the
            last bit; a time is not. `rerun` and `diff` leave others out.
    """

    name: str
    unit: str
    better: Literal["lower", "higher", "neither"]
    zero: str
    x: str = ""
    headline: tuple[str, float | None] | Literal["curve", "cases"] | None = None
    title: str = ""
    repeatable: bool = True

    def facts(self) -> dict[str, Any]:
        """Return what a record says of it: all but what goes without saying."""
        facts = asdict(self)
        return {n: v for n, v in facts.items() if n != "repeatable" or not v}


@dataclass(frozen=True)
class Row:
    """One number of a measure.

    Attributes:
        quantity: name of the quantity.
        value: the number; None if there is none, and then `note` says why.
        x: where on the curve, if the quantity is one.
        case: the condition it was measured under, if there are several.
        note: what a reader must know of this number.
    """

    quantity: str
    value: float | None
    x: float | None = None
    case: str = ""
    note: str = ""


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
        summary: one line.
        version: raised whenever the same input gives another number.
        setting: kind of setting that it takes: `probe`, as a `Probe`, or `training`.
        once: whether one seed is enough, because it draws rather than ranks.
        exclusive: whether nothing else may compute beside it, because one of its
            quantities is not repeatable.
        quantities: facts of every quantity it returns, by name.
        compute: `(variant, setting, progress) -> Result`; `progress` takes the units
            of work done, out of `setting.work`.
    """

    name: str
    summary: str
    version: int
    setting: str
    once: bool
    exclusive: bool
    quantities: dict[str, Quantity]
    compute: Callable[[Variant, Any, Progress], Result]


def register_measure(
    name: str,
    *,
    quantities: tuple[Quantity, ...],
    version: int = 1,
    setting: str = "probe",
    once: bool = False,
    exclusive: bool = False,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """File a measure with its facts under a name; return the function unchanged.

    Raises:
        ConfigError: if `exclusive` is not what its quantities ask for.
    """
    times = not all(quantity.repeatable for quantity in quantities)
    if exclusive != times:
        raise ConfigError(
            f"measure {name!r}: exclusive must be {times}, got {exclusive}; a measure "
            f"with a quantity that is not repeatable runs alone"
        )

    def file(compute: Callable[..., Result]) -> Callable[..., Result]:
        summary = (compute.__doc__ or "").partition("\n")[0]
        by_name = {quantity.name: quantity for quantity in quantities}
        measure = Measure(
            name, summary, version, setting, once, exclusive, by_name, compute
        )
        facts = {"version": version, "setting": setting, "once": once}
        facts["exclusive"] = exclusive
        MEASURES.add(name, measure, compute.__module__, summary, facts)
        return compute

    return file
