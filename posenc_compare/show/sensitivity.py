"""How rankings change with a setting: a budget, a norm, a rate or a text.

Every outcome of trained networks has a table: schemes down, values of the setting
across. Beneath it stand the ranking under each value, and the pairs of schemes of which
one value claims an order and another has the opposite sign: these are undecided.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from posenc_compare.records.quantities import Better, Curve, Headline, Quantity
from posenc_compare.records.record import Record
from posenc_compare.registry import SCORES
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.means import (
    Frame,
    Mean,
    failures,
    means_of,
    of_headline,
    of_quantity,
    spread_note,
    views_of,
)
from posenc_compare.show.ranking import (
    Column,
    by_family,
    order_lines,
    ranking,
)
from posenc_compare.show.tasks import by_task, prefix
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.pairs import ALPHA, adjusted_p

WIDE = 4  # values that have a column each


@dataclass(frozen=True)
class Outcome:
    """A number of trained networks under every value of a setting.

    Attributes:
        heading: of the quantity, and where on its curve.
        better: which end is.
        columns: means by scheme, by value of the setting.
    """

    heading: str
    better: Better
    columns: dict[str, Column]

    @property
    def labels(self) -> list[str]:
        """Return the schemes that have records of two values or more, by family.

        One that has no number under any value is left out.
        """
        means = [mean for column in self.columns.values() for mean in column.values()]
        families = {mean.scheme: mean.family for mean in means}
        count = Counter(mean.scheme for mean in means)
        known = {mean.scheme for mean in means if mean.values}
        labels = [label for label in families if count[label] > 1 and label in known]
        return sorted(labels, key=lambda label: by_family(families[label], label))

    def numbers(self, value: str, labels: list[str]) -> Frame:
        """Return the numbers under a value, schemes by seeds; NaN where none is."""
        means = [mean for column in self.columns.values() for mean in column.values()]
        seeds = sorted({seed for mean in means for seed in mean.values})
        known = {k: mean.values for k, mean in self.columns[value].items()}
        frame = pd.DataFrame.from_dict(known, orient="index")
        return frame.reindex(index=labels, columns=seeds).astype(float)

    def cell(self, value: str, label: str) -> Cell:
        """Return the mean of a scheme under a value, with its interval over seeds."""
        mean = self.columns[value].get(label)
        return mean.over_seeds.cell if mean else Cell()


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
    return Outcome(heading, view.quantity.better, columns)


def _side_by_side(by: str, outcome: Outcome) -> Table:
    """Return a table with a column for each value, and the change between two."""
    values, labels = list(outcome.columns), outcome.labels
    head = [*values]
    rows: list[list[str | Cell]] = [
        [label, *(outcome.cell(value, label) for value in values)] for label in labels
    ]
    if len(values) == 2:
        head.append("change")
        first, last = (outcome.numbers(value, labels) for value in values)
        for row, change in zip(rows, (last - first).to_numpy(), strict=True):
            row.append(_mean(change[np.isfinite(change)]))
    rankings = [
        ranking({k: m for k, m in column.items() if k in labels}, outcome.better)
        for column in outcome.columns.values()
    ]
    lines = [*order_lines(values, rankings), *_undecided(outcome)]
    return _table(by, outcome, head, rows, lines)


def _best(by: str, outcome: Outcome) -> Table:
    """Return a table of the best value of each scheme, beside one that all share."""
    labels = outcome.labels
    sign = -1 if outcome.better == "higher" else 1
    losses: Frame = pd.DataFrame(
        {v: sign * outcome.numbers(v, labels).mean(axis=1) for v in outcome.columns}
    )
    best = losses.idxmin(axis=1)
    whole = losses.dropna(axis=1)
    if whole.empty:
        own: list[list[str | Cell]] = [
            [label, outcome.cell(best[label], label), best[label]] for label in labels
        ]
        line = "no value has all schemes, so that places cannot be compared"
        return _table(by, outcome, ["own best", "at"], own, [line])
    shared = str(whole.mean().idxmin())
    before = whole[shared].rank(method="first").astype(int)
    after = losses.min(axis=1).rank(method="first").astype(int)
    change = [
        f"{one}" if one == other else f"{one} to {other} *"
        for one, other in zip(before, after, strict=True)
    ]
    rows: list[list[str | Cell]] = [
        [
            label,
            outcome.cell(shared, label),
            outcome.cell(best[label], label),
            best[label],
            change[labels.index(label)],
        ]
        for label in before.sort_values().index
    ]
    line = (
        f"best on average over schemes: {shared}; * the place changes if each scheme "
        f"has its own best value"
    )
    return _table(by, outcome, [shared, "own best", "at", "place"], rows, [line])


def _undecided(outcome: Outcome) -> list[str]:
    """Return a line on pairs whose order one value claims and another reverses."""
    common = set.intersection(*({*column} for column in outcome.columns.values()))
    labels = [label for label in outcome.labels if label in common]
    claims, signs = [], []
    for value in outcome.columns:
        array = outcome.numbers(value, labels).to_numpy()
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


def _mean(values: np.ndarray) -> Cell:
    """Return the mean of paired differences."""
    if not len(values):
        return Cell()
    half = half_width(values)
    return Cell(float(values.mean()), None if math.isnan(half) else half, len(values))


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
    name = f"{outcome.heading} by {by}"
    note = spread_note(seeds)
    return Table(name, ["scheme", *head], rows, seeds, tuple(lines), note=note)
