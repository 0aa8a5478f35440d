"""How rankings change with a setting: a budget, a norm, a rate or a text.

Every outcome of trained networks has a table: schemes down, values of the setting
across. Beneath it stand the ranking under each value, and the pairs of schemes of which
one value claims an order and another has the opposite sign: these are undecided.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from posenc_compare.records.quantities import Better, Curve, Headline
from posenc_compare.records.record import Record
from posenc_compare.registry import SCORES
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.frame import (
    Floats,
    Frame,
    by_scheme,
    cell_of,
    means_of,
    of_headline,
    of_quantity,
    over_seeds,
    spread_note,
    views_of,
)
from posenc_compare.show.ranking import ByLabel, by_family_of, order_lines, ranking
from posenc_compare.show.tasks import by_task, prefix
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.pairs import ALPHA, adjusted_p

WIDE = 4  # values that have a column each
Columns = Mapping[str, ByLabel]
"""Means by scheme, by value of the setting."""
Rows = list[list[str | Cell]]


def sensitivity_tables(by: str, groups: Mapping[str, list[Record]]) -> list[Table]:
    """Return a table for every outcome of trained networks.

    Args:
        by: names of the setting that changes, for the titles.
        groups: records by the value of the setting that changes; labels in a group
            distinguish all other settings.
    """
    tasks = by_task(record for records in groups.values() for record in records)
    found = []
    for task in tasks:
        own = {v: [r for r in some if r.task == task] for v, some in groups.items()}
        for heading, better, columns in _outcomes(own):
            if labels := _labels(columns):
                show = _best if len(columns) > WIDE else _side_by_side
                head, rows, lines = show(columns, labels, better)
                means = [c[k] for c in columns.values() for k in labels if k in c]
                seeds = max(mean.n for mean in means)
                title = f"{prefix(task)}{heading} by {by}"
                note = spread_note(seeds)
                head = ["scheme", *head]
                found.append(Table(title, head, rows, seeds, tuple(lines), note=note))
    return found


def _outcomes(
    groups: Mapping[str, list[Record]],
) -> Iterator[tuple[str, Better, Columns]]:
    """Yield the scores at the shortest and the longest length, then the headlines."""
    means = {value: over_seeds(means_of(records)) for value, records in groups.items()}
    views = views_of(record for records in groups.values() for record in records)
    for (measure, name), view in sorted(
        views.items(), key=lambda item: not isinstance(item[1], Curve)
    ):
        quantity, shown = view.quantity, {}
        if isinstance(view, Curve) and name in SCORES:
            curves = [of_quantity(some, measure, name) for some in means.values()]
            for x in _ends(curves):
                shown[f"{quantity.heading} at {x:g}"] = Headline(quantity, "", x)
        elif isinstance(view, Headline) and quantity.better != "neither":
            shown[quantity.heading] = view
        for heading, one in shown.items():
            columns = {
                value: by_scheme(of_quantity(some, measure, ""))
                | by_scheme(of_headline(some, measure, one))
                for value, some in means.items()
            }
            yield heading, quantity.better, columns


def _ends(curves: list[Frame]) -> list[float]:
    """Return the first and last point that all curves with any have."""
    points = [{*curve["x"]} for curve in curves if len(curve)]
    common = sorted(set.intersection(*points)) if points else []
    return [*dict.fromkeys(common[:1] + common[-1:])]


def _labels(columns: Columns) -> list[str]:
    """Return the schemes that have records of two values or more, by family.

    One that has no number under any value is left out.
    """
    means = [item for column in columns.values() for item in column.items()]
    families = {label: mean.family for label, mean in means}
    count = Counter(label for label, _ in means)
    known = {label for label, mean in means if mean.n and count[label] > 1}
    return by_family_of(families, known)


def _side_by_side(
    columns: Columns, labels: list[str], better: Better
) -> tuple[list[str], Rows, list[str]]:
    """Return head, rows and lines with a column for each value, and their change."""
    head = [*columns]
    rows: Rows = [
        [label, *(_cell(column, label) for column in columns.values())]
        for label in labels
    ]
    if len(columns) == 2:
        head.append("change")
        first, last = _numbers(columns, labels)
        for row, change in zip(rows, last - first, strict=True):
            row.append(_change(change[np.isfinite(change)]))
    rankings = [
        ranking({k: m for k, m in column.items() if k in labels}, better)
        for column in columns.values()
    ]
    return head, rows, order_lines(columns, rankings) + _undecided(columns, labels)


def _best(
    columns: Columns, labels: list[str], better: Better
) -> tuple[list[str], Rows, list[str]]:
    """Return the best value of each scheme, beside one that all share."""
    sign = -1 if better == "higher" else 1
    losses: Frame = pd.DataFrame(
        {
            value: [sign * column[k].mean if k in column else math.nan for k in labels]
            for value, column in columns.items()
        },
        index=labels,
    )
    best = losses.idxmin(axis=1)
    own = {k: [_cell(columns[best[k]], k), best[k]] for k in labels}
    whole = losses.dropna(axis=1)
    if whole.empty:
        line = "no value has all schemes, so that places cannot be compared"
        return ["own best", "at"], [[k, *own[k]] for k in labels], [line]
    shared = str(whole.mean().idxmin())
    before = whole[shared].rank(method="first").astype(int)
    after = losses.min(axis=1).rank(method="first").astype(int)
    rows: Rows = []
    for label in before.sort_values().index:
        one, other = before[label], after[label]
        place = f"{one}" if one == other else f"{one} to {other} *"
        rows.append([label, _cell(columns[shared], label), *own[label], place])
    line = (
        f"best on average over schemes: {shared}; * the place changes if each scheme "
        f"has its own best value"
    )
    return [shared, "own best", "at", "place"], rows, [line]


def _undecided(columns: Columns, labels: list[str]) -> list[str]:
    """Return a line on pairs whose order one value claims and another reverses."""
    labels = [k for k in labels if all(k in column for column in columns.values())]
    claims, signs = [], []
    for array in _numbers(columns, labels):
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


def _numbers(columns: Columns, labels: list[str]) -> Floats:
    """Return the numbers `(value, scheme, seed)`; NaN where there is none."""
    values = [
        [column[k].values if k in column else {} for k in labels]
        for column in columns.values()
    ]
    seeds = sorted({seed for row in values for cell in row for seed in cell})
    found = [[[cell.get(s, math.nan) for s in seeds] for cell in row] for row in values]
    return np.array(found).reshape(len(columns), len(labels), len(seeds))


def _cell(column: ByLabel, label: str) -> Cell:
    return cell_of(column[label]) if label in column else Cell()


def _change(values: Floats) -> Cell:
    """Return the mean of paired differences."""
    if not len(values):
        return Cell()
    half = half_width(values)
    return Cell(float(values.mean()), None if math.isnan(half) else half, len(values))
