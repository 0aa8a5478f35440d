"""Differences of trained schemes from one of them, seed by seed."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from posenc_compare.errors import ConfigError
from posenc_compare.records.quantities import Curve, Headline, Quantity
from posenc_compare.records.record import Record
from posenc_compare.show.columns import Chosen
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.means import (
    means_of,
    of_headline,
    of_quantity,
    values_of,
    views_of,
)
from posenc_compare.show.ranking import Column, by_family
from posenc_compare.show.setting import setting_line, texts_of
from posenc_compare.show.tasks import by_task, prefix
from posenc_compare.stats.intervals import LEVEL, half_width
from posenc_compare.stats.pairs import ALPHA, FEWEST, adjusted_p_of
from posenc_compare.validate import hint


def baseline_tables(
    records: Iterable[Record], baseline: str, columns: str = ""
) -> list[Table]:
    """Return a table for every outcome of trained networks.

    A cell is the mean difference from the baseline with its 95 % interval, in how many
    of the common seeds the scheme is better, and the p value of a difference, adjusted
    for all schemes of the column.

    Args:
        records: of the comparison.
        baseline: label of the scheme to compare with.
        columns: comma-separated headings or globs of those to show, or titles of
            quantities that have one column; all, if empty.

    Raises:
        ConfigError: if no training is of that scheme, or no table has such a column.
    """
    tasks, chosen = by_task(records), Chosen(columns)
    labels = {record.label for some in tasks.values() for record in some}
    if baseline not in labels:
        there = ", ".join(sorted(labels)[:8])
        there = f"; there are {there}" if there else "; no network was trained"
        near = hint(baseline, labels) or there
        raise ConfigError(f"no training is of baseline {baseline[:80]!r}{near}")
    tables = [
        replace(table, caption=f"{table.title}. {setting_line(some)}")
        for task, some in tasks.items()
        for title, quantity, found in _outcomes(some)
        if (kept := {k: c for k, c in found.items() if chosen.asks(k)})
        and (
            table := _table(
                prefix(task) + title, quantity, kept, baseline, _others(some, baseline)
            )
        )
    ]
    chosen.check()
    if not tables:
        raise ConfigError(
            f"differences from {baseline}: another trained scheme must be shown, "
            f"and none is"
        )
    return tables


def _outcomes(
    records: list[Record],
) -> Iterator[tuple[str, Quantity, dict[str, Column]]]:
    """Yield title, quantity and columns of what has a better end, curves first."""
    means = means_of(records)
    views = views_of(records).items()  # of which a sort keeps the order
    for (measure, name), view in sorted(
        views, key=lambda item: not isinstance(item[1], Curve)
    ):
        quantity = view.quantity
        if quantity.better == "neither":
            continue
        mine = of_quantity(means, measure, name)
        if isinstance(view, Curve):
            points = sorted({mean.x for mean in mine})
            columns: dict[str, Column] = {
                f"{x:g}": {m.scheme: m for m in mine if m.x == x and not m.case}
                for x in points
            }
            yield f"{quantity.heading} by {quantity.x}", quantity, columns
        elif isinstance(view, Headline):
            here = {m.scheme: m for m in of_headline(mine, measure, view)}
            yield quantity.heading, quantity, {quantity.heading: here}


def _others(records: list[Record], baseline: str) -> set[str]:
    """Return the schemes that were not tested on the text of the baseline."""
    texts: dict[str, set[tuple[str, str]]] = {}
    for record in records:
        texts.setdefault(record.label, set()).update(texts_of([record]))
    return {label for label in texts if texts[label] != texts.get(baseline)}


def _table(
    title: str,
    quantity: Quantity,
    columns: dict[str, Column],
    baseline: str,
    others: set[str],
) -> Table | None:
    """Return the differences of one quantity; of schemes of another text, a reason."""
    families = {k: mean.family for c in columns.values() for k, mean in c.items()}
    labels = sorted(
        families.keys() - {baseline}, key=lambda k: by_family(families[k], k)
    )
    counts = [len(c[baseline].values) for c in columns.values() if baseline in c]
    if not labels or not counts:
        return None
    sign, seeds = 1 if quantity.better == "higher" else -1, max(counts)
    cells = [
        _cells(column, labels, baseline, sign, others) for column in columns.values()
    ]
    lines = [f"{quantity.better} is better; * p ≤ {ALPHA:g}"]
    common = {k: max(column[k].n for column in cells) for k in sorted(labels)}
    few = [label for label, count in common.items() if 0 < count < FEWEST]
    if seeds < FEWEST:
        lines = [f"{quantity.better} is better; no p: {seeds} seeds, {FEWEST} needed"]
    elif few:
        lines.append(f"no p, for {FEWEST} seeds are needed: {', '.join(few)}")
    return Table(
        f"{title}: difference from {baseline}",
        ["scheme", *columns],
        [[label, *(column[label] for column in cells)] for label in labels],
        seeds,
        tuple(lines),
        note=f"with half width of its {LEVEL:.0%} interval; seeds that are better; p",
    )


def _cells(
    column: Column, labels: list[str], baseline: str, sign: int, others: set[str]
) -> dict[str, Cell]:
    """Return every scheme's cell in a column."""
    found = {k: Cell(note=column[k].note if k in column else "") for k in labels}
    found |= {k: Cell(note="of another text") for k in others & found.keys()}
    known = [k for k in labels if k in column and column[k].values and k not in others]
    if baseline not in column or not column[baseline].values or not known:
        return found
    values = values_of([column[baseline], *(column[label] for label in known)])
    differences = values[1:] - values[0]
    p = adjusted_p_of(differences)
    for label, row, one in zip(known, differences, p, strict=True):
        both = row[np.isfinite(row)]
        if not len(both):
            continue
        width = half_width(both)
        more = f", {int((sign * both > 0).sum())}/{len(both)}"
        if not math.isnan(one):
            more += f", p {one:.3f}{' *' if one <= ALPHA else ''}"
        found[label] = Cell(
            float(both.mean()),
            None if math.isnan(width) else width,
            len(both),
            more=more,
        )
    return found
