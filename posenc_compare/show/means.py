"""Means over seeds with their intervals, from records alone.

A record of a curve may hold `document_bits`, the mean of every window at every x of the
curve, and `window_documents`, the document that each window is from. A mean over seeds
that read the same windows then has an interval over both.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from posenc_compare.records.load import DOCUMENTS
from posenc_compare.records.quantities import Array, Curve, Headline, Row, View
from posenc_compare.records.record import Record
from posenc_compare.records.sanitize import SHORT, clean
from posenc_compare.show.format import Cell
from posenc_compare.stats.documents import crossed_half_width
from posenc_compare.stats.intervals import LEVEL, half_width
from posenc_compare.stats.rounding import rounded_away, settled

SAME = 1e-4  # relative; records keep five digits of a window, and all of their mean
Floats = NDArray[np.float64]
Frame = Any  # a pandas table; type checkers lose its methods after one step
Views = dict[tuple[str, str], View]
"""By measure and quantity, in the order of display."""


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
        return self.with_values(self.values)

    def with_values(self, values: dict[int, float]) -> Self:
        """Return the mean of other values, with their interval over seeds."""
        width = half_width([*values.values()])
        return replace(self, values=values, half_width=width, documents=0)

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
    behind: dict[tuple[object, ...], list[tuple[Record, Row]]] = defaultdict(list)
    for record in sorted(records, key=lambda r: r.spec.seed):  # for the last digit
        place = (record.label, record.family, record.measure, record.task)
        for row in _rows(record):
            point = (row.quantity, row.case, row.x is None, row.x or 0.0)
            behind[(*place, *point, _unit(record, row))].append((record, row))
    return [_mean(behind[place]) for place in sorted(behind)]


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


def values_of(means: Sequence[Mean]) -> Floats:
    """Return the values of means, `(mean, seed)`; NaN where one lacks a seed."""
    seeds = sorted({seed for mean in means for seed in mean.values})
    return np.array([[mean.values.get(s, np.nan) for s in seeds] for mean in means])


def spread_note(seeds: int, documents: int = 0) -> str:
    """Describe the means and half widths of a table over so many seeds."""
    if seeds == 1:
        return "1 seed"
    texts = f" and {documents} documents" if documents else ""
    return f"mean ± half width of the {LEVEL:.0%} interval over {seeds} seeds{texts}"


def _rows(record: Record) -> tuple[Row, ...]:
    """Return the numbers of a record, or a row that says why it has none."""
    if record.status == "ok":
        return record.rows
    return (Row("", None, note=f"{record.status}: {record.error}"),)


def _unit(record: Record, row: Row) -> str:
    return record.quantities[row.quantity].unit if row.quantity else ""


def _mean(behind: list[tuple[Record, Row]]) -> Mean:
    """Return the mean of a number of one scheme, given by seed."""
    record, row = behind[0]
    known = [(r, one) for r, one in behind if one.value is not None]
    values = {r.spec.seed: float(one.value or 0.0) for r, one in known}
    documents, width = _over_documents(known)
    return Mean(
        record.label,
        record.family,
        record.source,
        record.measure,
        record.task,
        row.quantity,
        row.case,
        math.nan if row.x is None else float(row.x),
        _unit(record, row),
        values,
        width if documents else half_width([*values.values()]),
        documents,
        "; ".join(dict.fromkeys(one.note for _, one in behind if one.note)),
        tuple(r.key for r, _ in behind),
        record.settings,
    )


def _over_documents(known: list[tuple[Record, Row]]) -> tuple[int, float]:
    """Return how many documents all seeds read, and the half width over both.

    It is 0 if they did not read the same ones, or only one, whose choice nothing tells
    of.
    """
    found = [windows for one in known if (windows := _windows(*one))]
    if not found or len(found) < len(known):
        return 0, math.nan
    first = found[0][1]
    count = len(np.unique(first))
    if count < 2 or not all(np.array_equal(first, owners) for _, owners in found):
        return 0, math.nan
    return count, crossed_half_width(np.array([scores for scores, _ in found]), first)


def _windows(record: Record, row: Row) -> tuple[Floats, Floats] | None:
    """Return the scores of the windows behind a point, and their documents.

    Of several curves of a record, windows belong to the one whose numbers are their
    means.
    """
    scores, owners = map(record.arrays.get, DOCUMENTS)
    view = record.views.get(row.quantity)
    if row.case or not isinstance(view, Curve) or not isinstance(scores, list):
        return None
    own = [r for r in record.rows if r.quantity == row.quantity and not r.case]
    points = sorted({r.x for r in own if r.x is not None})
    documents = _numbers(owners)
    if row.x is None or not len(documents) or points.index(row.x) >= len(scores):
        return None
    bits = _numbers(scores[points.index(row.x)])
    if len(bits) != len(documents):
        return None
    near = math.isclose(bits.mean(), row.value or 0.0, rel_tol=SAME)
    return (bits, documents) if near else None


def _numbers(array: Array) -> Floats:
    """Return a flat array of finite numbers; an empty one for anything else."""
    values = array if isinstance(array, list) else []
    fit = all(isinstance(v, int | float) and math.isfinite(v) for v in values)
    return np.array(values if fit else [], np.float64)
