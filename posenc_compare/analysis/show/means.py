"""Means over seeds with their intervals, from records alone."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from posenc_compare.analysis.core.quantities import Headline, View
from posenc_compare.analysis.core.sanitize import SHORT, clean
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.documents import Windows
from posenc_compare.analysis.show.format import Cell
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.rounding import rounded_away, settled

SUMMARY = [
    "scheme",
    "family",
    "measure",
    "task",
    "quantity",
    "case",
    "x",
    "unit",
    "mean",
    "half_width",
    "n",
    "note",
    "records",
]


Group = tuple[str, str, float | None, str]
"""Quantity, case, x and unit of a number."""


Views = dict[tuple[str, str], View]
"""By measure and quantity, in the order of display."""


class Entry(NamedTuple):
    """What one record says of a number."""

    seed: int
    value: float | None
    note: str
    key: str


@dataclass(frozen=True)
class Mean:
    """A number of a scheme, over all seeds that have it.

    Attributes:
        scheme: its label.
        family: of the scheme.
        source: paper of the scheme.
        measure: its name.
        task: that networks were trained on; empty where none was.
        quantity: its name; empty where a whole measure failed, and `note` says why.
        case: the condition it was measured under.
        x: where on a curve; NaN off it.
        unit: of the values.
        values: by seed.
        half_width: of the 95 % interval of the mean; NaN for one seed or none.
        documents: that the interval covers besides seeds; 0 for none.
        note: what the records say.
        records: their keys.
        settings: that tell the label apart from others.
    """

    scheme: str
    family: str
    source: str
    measure: str
    task: str
    quantity: str
    case: str
    x: float
    unit: str
    values: dict[int, float]
    half_width: float
    documents: int
    note: str
    records: tuple[str, ...]
    settings: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """Return the mean over seeds; NaN where there is no value."""
        return float(np.mean([*self.values.values()])) if self.values else math.nan

    @property
    def over_seeds(self) -> Self:
        """Return it with the interval over seeds alone, whatever else is known."""
        width = half_width([*self.values.values()])
        return replace(self, half_width=width, documents=0)

    @property
    def cell(self) -> Cell:
        """Return it for a table; a spread that is rounding is none."""
        if not self.values:
            return Cell(note=self.note)
        values = [*self.values.values()]
        spread = not settled(values)  # as one value alone is
        return Cell(
            self.mean,
            self.half_width if spread else None,
            len(values),
            self.note,
            rounding=any(values) and not rounded_away(values).any(),
        )


def means_of(records: Iterable[Record]) -> list[Mean]:
    """Return the mean of every quantity of every scheme, sorted by their names.

    A record without a result has one without values that says why.
    """
    behind: dict[tuple[str, str, str, str], list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda r: r.spec.seed):  # for the last digit
        place = (record.label, record.family, record.measure, record.task)
        behind[place].append(record)
    found = [mean for some in behind.values() for mean in _of_measure(some)]
    return sorted(found, key=_place)


def views_of(records: Iterable[Record]) -> Views:
    """Return the views of all quantities by measure and name, in their order."""
    found = {
        (record.measure, name): view
        for record in records
        for name, view in record.views.items()
    }
    return {place: found[place] for place in sorted(found)}


def of_quantity(means: Iterable[Mean], measure: str, name: str) -> list[Mean]:
    """Return the means of one quantity of a measure."""
    return [mean for mean in means if (mean.measure, mean.quantity) == (measure, name)]


def failures(means: Iterable[Mean], measure: str) -> list[Mean]:
    """Return the means without a quantity: reasons why a whole measure failed."""
    return of_quantity(means, measure, "")


def of_headline(means: Iterable[Mean], measure: str, view: Headline) -> list[Mean]:
    """Return the means that a headline shows: those of its case, at its point."""
    case = clean(view.case, SHORT)  # as rows have it
    return [
        mean
        for mean in of_quantity(means, measure, view.quantity.name)
        if mean.case == case
        and (mean.x == view.x or (view.x is None and math.isnan(mean.x)))
    ]


def values_of(means: Sequence[Mean]) -> NDArray[np.float64]:
    """Return the values of means, `(mean, seed)`; NaN where one lacks a seed."""
    seeds = sorted({seed for mean in means for seed in mean.values})
    return np.array([[mean.values.get(s, np.nan) for s in seeds] for mean in means])


def summary(records: Iterable[Record]) -> pd.DataFrame:
    """Return mean, half width of the 95 % interval and count over seeds.

    `records` lists the keys of the records behind a row, `note` what they say.
    """
    rows = [
        {
            **vars(mean),
            "mean": mean.mean,
            "n": len(mean.values),
            "records": " ".join(sorted(mean.records)),
        }
        for mean in means_of(records)
    ]
    frame = pd.DataFrame(rows, columns=SUMMARY)
    return frame.astype(dict.fromkeys(("x", "mean", "half_width"), "float64"))


def _entries(record: Record) -> Iterator[tuple[Group, "Entry"]]:
    """Yield what a record says of every number, or why it has none."""
    seed, key = record.spec.seed, record.key
    if record.status != "ok":
        note = f"{record.status}: {record.error}"
        yield ("", "", None, ""), Entry(seed, None, note, key)
        return
    for row in record.rows:
        unit = record.quantities[row.quantity].unit
        group = (row.quantity, row.case, row.x, unit)
        yield group, Entry(seed, row.value, row.note, key)


def _of_measure(records: list[Record]) -> Iterator[Mean]:
    """Yield the means of records of one scheme, measure and task, given by seed."""
    windows = Windows(record for record in records if record.status == "ok")
    groups: dict[Group, list[Entry]] = defaultdict(list)
    for record in records:
        for group, entry in _entries(record):
            groups[group].append(entry)
    first = records[0]
    for (quantity, case, x, unit), entries in groups.items():
        values = {e.seed: float(e.value) for e in entries if e.value is not None}
        place = (quantity, math.nan if x is None else float(x))
        documents = windows.documents(place, values) if not case else 0
        yield Mean(
            first.label,
            first.family,
            first.source,
            first.measure,
            first.task,
            quantity,
            case,
            place[1],
            unit,
            values,
            windows.half_width(place, values)
            if documents
            else half_width([*values.values()]),
            documents,
            "; ".join(dict.fromkeys(entry.note for entry in entries if entry.note)),
            tuple(entry.key for entry in entries),
            first.settings,
        )


def _place(mean: Mean) -> tuple[object, ...]:
    on_curve = not math.isnan(mean.x)
    return (
        mean.scheme,
        mean.family,
        mean.measure,
        mean.task,
        mean.quantity,
        mean.case,
        not on_curve,
        mean.x if on_curve else 0.0,
        mean.unit,
    )
