"""How rankings change with a setting: a budget, a norm, a rate or a text.

Every outcome of trained networks has a table: schemes down, values of the setting
across. Beneath it stand the ranking under each value, and the pairs of schemes that
differ significantly under one value and have their means in the opposite order under
another: these are reversed.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from posenc_compare.records.quantities import Curve, Headline
from posenc_compare.records.record import Record
from posenc_compare.registry import SCORES
from posenc_compare.show import frame
from posenc_compare.show.format import Table
from posenc_compare.show.frame import Frame, of_quantity
from posenc_compare.show.ranking import Column, by_family_of
from posenc_compare.show.tables import layout, texts_behind, without_number
from posenc_compare.show.tasks import by_task, prefix
from posenc_compare.stats.level import ALPHA
from posenc_compare.stats.pairs import adjusted_p
from posenc_compare.stats.rounding import levelled

WIDE = 4  # values that have a column each


def sensitivity_tables(by: str, groups: Mapping[str, list[Record]]) -> list[Table]:
    """Return a table for every outcome of trained networks.

    Groups are records by the value of the setting that changes; their labels
    distinguish all other settings.
    """
    every = [record for records in groups.values() for record in records]
    found = []
    for task, records in by_task(every).items():
        own = {v: [r for r in some if r.task == task] for v, some in groups.items()}
        for heading, columns in _outcomes(own):
            labels, left_out = _labels(columns)
            if labels:
                show = _best if len(columns) > WIDE else _side_by_side
                title = f"{prefix(task)}{heading} by {by}"
                measured = [r for r in records if r.measure == columns[0].measure]
                behind = [one for one in measured if one.label not in left_out]
                table = show(title, columns, labels, behind)
                lines = [*table.lines]
                if left_out:
                    lines.append(f"under one value alone: {', '.join(left_out)}")
                lines += without_number(behind, labels)
                found.append(replace(table, lines=tuple(lines)))
    return found


def _outcomes(groups: Mapping[str, list[Record]]) -> Iterator[tuple[str, list[Column]]]:
    """Yield the scores at the shortest and the longest length, then the headlines.

    Each has a column for every value of the setting.
    """
    means = {
        value: frame.over_seeds(frame.Numbers(records).means)
        for value, records in groups.items()
    }
    views = frame.views_of(record for records in groups.values() for record in records)
    for (measure, name), view in sorted(
        views.items(), key=lambda item: not isinstance(item[1], Curve)
    ):
        quantity, shown = view.quantity, {}
        if isinstance(view, Curve) and name in SCORES:
            curves = [of_quantity(some, measure, name)["x"] for some in means.values()]
            points = [{*curve} for curve in curves if len(curve)]
            common = sorted(set.intersection(*points)) if points else []
            for x in dict.fromkeys(common[:1] + common[-1:]):
                shown[f"{quantity.heading} at {x:g}"] = Headline(quantity, "", x)
        elif isinstance(view, Headline) and quantity.better != "neither":
            shown[quantity.heading] = view
        for heading, one in shown.items():
            columns = []
            for value, some in means.items():
                found = frame.of_headline(some, measure, one)
                columns.append(Column(value, measure, found, quantity.better))
            yield heading, columns


def _labels(columns: list[Column]) -> tuple[list[str], list[str]]:
    """Return the schemes with records of two values or more, and the others, by family.

    One that has no number under any value is left out of both.
    """
    means = [item for column in columns for item in column.means.items()]
    families = {label: mean.family for label, mean in means}
    count = Counter(label for label, _ in means)
    known = {label for label, mean in means if mean.n}
    several = {label for label in known if count[label] > 1}
    return by_family_of(families, several), by_family_of(families, known - several)


def _side_by_side(
    title: str, columns: list[Column], labels: list[str], records: list[Record]
) -> Table:
    """Return a table with a column for each value, and the change between two."""
    lines = _reversed(columns, labels) if _of_one_text(columns, records) else []
    if len(columns) == 2:
        first, last = (column.means for column in columns)
        changes = {
            label: frame.less(last[label], first[label])._replace(note="")
            for label in labels
            if label in first and label in last
        }
        columns = [*columns, Column("change", columns[0].measure, changes)]
    table = layout(title, columns, records, labels)
    return replace(table, lines=(*table.lines, *lines))


def _of_one_text(columns: list[Column], records: list[Record]) -> bool:
    """Return whether the scores of each column are of one text, so that they rank."""
    return all(len(texts_behind(column, records)) < 2 for column in columns)


def _best(
    title: str, columns: list[Column], labels: list[str], records: list[Record]
) -> Table:
    """Return a table of the best value of each scheme, beside one that all share."""
    sign, measure = columns[0].sign, columns[0].measure
    means = {column.name: column.means for column in columns}
    losses: Frame = pd.DataFrame(
        {
            value: {k: sign * own[k].mean for k in labels if k in own}
            for value, own in means.items()
        },
        index=labels,
    )
    best, whole = losses.idxmin(axis=1), losses.dropna(axis=1)
    shown = [Column("own best", measure, {k: means[best[k]][k] for k in labels})]
    shared = "" if whole.empty else str(whole.mean().idxmin())
    if shared:
        shown.insert(0, Column(shared, measure, means[shared]))
    table = layout(title, shown, records, labels)
    head, rows = [*table.head, "at"], [[*row, best[row[0]]] for row in table.rows]
    line = "no value has all schemes, so that ranks cannot be compared"
    if shared:
        line = "scores are of several texts, so that ranks cannot be compared"
    if shared and _of_one_text([*columns, *shown], records):
        before, after = map(_ranks, (whole[shared], losses.min(axis=1)))
        rows.sort(key=lambda row: before[row[0]])
        head.append("rank")
        for row in rows:
            one, other = before[row[0]], after[row[0]]
            row.append(f"{one}" if one == other else f"{one} to {other} *")
        line = (
            f"best on average over schemes: {shared}; * the rank changes if each "
            f"scheme has its own best value"
        )
    return replace(table, head=head, rows=rows, lines=(line,))


def _ranks(values: Frame) -> Frame:
    """Return ranks by label; of equal values, the first label is ahead."""
    return pd.Series(levelled(values), values.index).rank(method="first").astype(int)


def _reversed(columns: list[Column], labels: list[str]) -> list[str]:
    """Return lines on pairs that differ under one value and swap under another."""
    labels = [k for k in labels if all(k in column.means for column in columns)]
    if not labels:
        return []
    every = frame.values_of(column.means[k] for column in columns for k in labels)
    claims, signs = [], []
    for array in every.reshape(len(columns), len(labels), -1):
        p = adjusted_p(array)
        # Over the seeds that both schemes of a pair have, as in the test.
        sign = np.sign(np.nansum(array[:, None] - array, axis=2))
        signs.append(sign)
        claims.append(np.where(np.nan_to_num(p, nan=1.0) <= ALPHA, sign, 0))
    claimed = np.abs(claims).sum(axis=0) > 0
    if not claimed.any():
        return []
    of = int(np.triu(claimed).sum())
    pairs, both = (
        [
            f"{labels[i]} and {labels[j]}"
            for i, j in zip(*np.nonzero(np.triu(swapped)), strict=True)
        ]
        for swapped in (claimed & _swaps(signs), _swaps(claims))
    )
    found = f"{len(pairs) or 'none'} of {of} pairs that differ under some value"
    if not pairs:
        return [f"means reversed in {found}"]
    return [
        f"means reversed in {found}: {', '.join(pairs)}",
        f"of these, significant in both orders: {', '.join(both) or 'none'}",
    ]


def _swaps(signs: list[NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Return which pairs have both signs among the values."""
    return (np.min(signs, axis=0) < 0) & (np.max(signs, axis=0) > 0)
