"""What becomes of an order if a setting changes: a budget, a norm, a rate or a text.

Every outcome of trained networks has a table: schemes down, values of the setting
across. Beneath it stand the order under each value, and the pairs of schemes of which
one value claims an order and another has the opposite sign: these are undecided.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from posenc_compare.analysis.core.quantities import Better, Curve, Headline, Quantity
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.format import Cell, Table
from posenc_compare.analysis.show.listing import by_family
from posenc_compare.analysis.show.means import (
    Mean,
    failures,
    means_of,
    of_headline,
    of_quantity,
    views_of,
)
from posenc_compare.analysis.show.orders import Column, order_lines
from posenc_compare.analysis.show.tasks import by_task, prefix
from posenc_compare.registry import SCORES
from posenc_compare.stats.intervals import LEVEL, half_width
from posenc_compare.stats.pairs import ALPHA, adjusted_p

WIDE = 4  # values that have a column each


@dataclass(frozen=True)
class Outcome:
    """A number of trained networks under every value of a setting.

    Attributes:
        heading: of the quantity, and where on its curve.
        higher: whether the greater number is the better.
        columns: means by scheme, by value of the setting.
    """

    heading: str
    higher: bool
    columns: dict[str, Column]

    @property
    def labels(self) -> list[str]:
        """Return the schemes that have records of two values or more, by family.

        One that has no number under any value is left out.
        """
        families: dict[str, str] = {}
        count: Counter[str] = Counter()
        known: set[str] = set()
        for column in self.columns.values():
            count.update(column.keys())
            families |= {label: mean.family for label, mean in column.items()}
            known |= {label for label, mean in column.items() if mean.values}
        labels = [label for label in families if count[label] > 1 and label in known]
        return sorted(labels, key=lambda label: by_family(families[label], label))

    def array(self, value: str, labels: list[str]) -> np.ndarray:
        """Return the numbers under a value, `(schemes, seeds)`; NaN where none is."""
        seeds = sorted(
            {
                s
                for c in self.columns.values()
                for mean in c.values()
                for s in mean.values
            }
        )
        column = self.columns[value]
        found = np.full((len(labels), len(seeds)), math.nan)
        for place, label in enumerate(labels):
            if label in column:
                values = column[label].values
                found[place] = [values.get(seed, math.nan) for seed in seeds]
        return found


def sensitivity_tables(by: str, groups: Mapping[str, list[Record]]) -> list[Table]:
    """Return a table for every outcome of trained networks.

    Args:
        by: names of the setting that changes, for the titles.
        groups: records by the value of the setting that changes; labels in a group
            tell all other settings apart.
    """
    parted = {value: by_task(records) for value, records in groups.items()}
    tasks = dict.fromkeys(task for some in parted.values() for task in some)
    return [
        _best(by, outcome)
        if len(outcome.columns) > WIDE
        else _side_by_side(by, outcome)
        for task in tasks
        for outcome in _outcomes(
            prefix(task), {value: some.get(task, []) for value, some in parted.items()}
        )
        if outcome.labels
    ]


def _outcomes(start: str, groups: Mapping[str, list[Record]]) -> Iterator[Outcome]:
    """Yield the scores at the shortest and the longest length, then the headlines."""
    means = {value: means_of(records) for value, records in groups.items()}
    views = views_of(record for records in groups.values() for record in records)
    for (measure, _), view in sorted(
        views.items(), key=lambda item: not isinstance(item[1], Curve)
    ):
        heading = f"{start}{view.quantity.heading}"
        if isinstance(view, Curve) and view.quantity.name in SCORES:
            for x in _ends(measure, view.quantity, means):
                here = Headline(view.quantity, "", x)
                yield _outcome(f"{heading} at {x:g}", measure, here, means)
        elif isinstance(view, Headline) and view.quantity.better != "neither":
            yield _outcome(heading, measure, view, means)


def _ends(
    measure: str, quantity: Quantity, means: Mapping[str, list[Mean]]
) -> list[float]:
    """Return the first and last point of a curve that all values with any have."""
    points = [
        {mean.x for mean in of_quantity(some, measure, quantity.name)}
        for some in means.values()
    ]
    common = sorted(set.intersection(*filter(None, points)) if any(points) else ())
    return [*dict.fromkeys(common[:1] + common[-1:])]


def _outcome(
    heading: str, measure: str, view: Headline, means: Mapping[str, list[Mean]]
) -> Outcome:
    columns: dict[str, Column] = {
        value: {
            mean.scheme: mean
            for mean in (*failures(some, measure), *of_headline(some, measure, view))
        }
        for value, some in means.items()
    }
    return Outcome(heading, view.quantity.better == "higher", columns)


def _side_by_side(by: str, outcome: Outcome) -> Table:
    """Return a table with a column for each value, and the change between two."""
    values, labels = list(outcome.columns), outcome.labels
    head = [*values]
    rows: list[list[str | Cell]] = [
        [label, *(_cell(outcome.columns[value], label) for value in values)]
        for label in labels
    ]
    if len(values) == 2:
        head.append("change")
        first, last = (outcome.array(value, labels) for value in values)
        for row, change in zip(rows, last - first, strict=True):
            row.append(_mean(change))
    columns = [
        {k: m for k, m in column.items() if m.values and k in labels}
        for column in outcome.columns.values()
    ]
    ends: list[Better] = ["higher" if outcome.higher else "lower"] * len(values)
    lines = [*order_lines(values, columns, ends), *_undecided(outcome)]
    return _table(by, outcome, head, rows, lines)


def _best(by: str, outcome: Outcome) -> Table:
    """Return a table of the best value of each scheme, beside one that all share."""
    labels = outcome.labels
    sign = -1 if outcome.higher else 1
    means = {
        value: sign * _means(outcome.array(value, labels)) for value in outcome.columns
    }
    table = np.array([*means.values()])
    own = np.nanmin(table, axis=0)
    best = [list(means)[place] for place in np.nanargmin(table, axis=0)]
    whole = {value: some for value, some in means.items() if not np.isnan(some).any()}
    if not whole:
        own_best: list[list[str | Cell]] = [
            [label, _cell(outcome.columns[value], label), value]
            for label, value in zip(labels, best, strict=True)
        ]
        line = "no value has all schemes, so that places cannot be compared"
        return _table(by, outcome, ["own best", "at"], own_best, [line])
    shared = min(whole, key=lambda value: float(whole[value].mean()))
    before, after = _places(whole[shared]), _places(own)
    common = outcome.columns[shared]
    rows: list[list[str | Cell]] = [
        [
            label,
            _cell(common, label),
            _cell(outcome.columns[best[i]], label),
            best[i],
            f"{before[i]}" if before[i] == after[i] else f"{before[i]} to {after[i]} *",
        ]
        for i, label in enumerate(labels)
    ]
    rows.sort(key=lambda row: before[labels.index(str(row[0]))])
    line = (
        f"best on average over schemes: {shared}; * the place changes if each scheme "
        f"has its own best value"
    )
    return _table(by, outcome, [shared, "own best", "at", "place"], rows, [line])


def _undecided(outcome: Outcome) -> list[str]:
    """Return a line on pairs whose order one value claims and another turns round."""
    common = set.intersection(*({*column} for column in outcome.columns.values()))
    labels = [label for label in outcome.labels if label in common]
    claims, signs = [], []
    for value in outcome.columns:
        array = outcome.array(value, labels)
        p = adjusted_p(array)
        # Over the seeds that both schemes of a pair have, as in the test.
        sign = np.sign(np.nansum(array[:, None] - array, axis=2))
        signs.append(sign)
        claims.append(np.where(np.nan_to_num(p, nan=1.0) <= ALPHA, sign, 0))
    claimed = np.abs(claims).sum(axis=0) > 0
    if not claimed.any():
        return []
    turned = claimed & (np.min(signs, axis=0) < 0) & (np.max(signs, axis=0) > 0)
    pairs = [
        f"{labels[i]} and {labels[j]}"
        for i, j in zip(*np.nonzero(np.triu(turned)), strict=True)
    ]
    of = int(np.triu(claimed).sum())
    if not pairs:
        return [f"no pair is undecided, of {of} that differ under some value"]
    return [
        f"undecided, for the sign changes ({len(pairs)} of {of}): {', '.join(pairs)}"
    ]


def _cell(column: Column, label: str) -> Cell:
    return column[label].over_seeds.cell if label in column else Cell()


def _mean(values: np.ndarray) -> Cell:
    """Return the mean of paired differences over the seeds that have one."""
    known = values[np.isfinite(values)]
    if not len(known):
        return Cell()
    half = half_width(known)
    return Cell(float(known.mean()), None if math.isnan(half) else half, len(known))


def _means(array: np.ndarray) -> np.ndarray:
    """Return the mean over the seeds that are there, NaN where none is."""
    there = np.isfinite(array)
    counts = there.sum(axis=1)
    totals = np.where(there, array, 0.0).sum(axis=1)
    return np.where(counts > 0, totals / np.maximum(counts, 1), math.nan)


def _places(numbers: np.ndarray) -> list[int]:
    """Return the place of each number, 1 for the smallest."""
    return (np.argsort(np.argsort(numbers, kind="stable")) + 1).tolist()


def _table(
    by: str,
    outcome: Outcome,
    head: list[str],
    rows: list[list[str | Cell]],
    lines: Iterable[str],
) -> Table:
    """Return the table of an outcome, with the number of seeds of its schemes."""
    shown = outcome.labels
    seeds = max(
        len(mean.values)
        for column in outcome.columns.values()
        for label, mean in column.items()
        if label in shown
    )
    spread = f"mean ± half width of the {LEVEL:.0%} interval over {seeds} seeds"
    note = spread if seeds > 1 else "1 seed"
    name = f"{outcome.heading} by {by}"
    return Table(name, ["scheme", *head], rows, seeds, tuple(lines), note=note)
