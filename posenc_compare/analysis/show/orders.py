"""What may be said of the order of schemes, in the lines beneath a table."""

from collections.abc import Mapping, Sequence

from posenc_compare.analysis.core.quantities import Better
from posenc_compare.analysis.show.means import Mean, values_of
from posenc_compare.stats.order import Order, order
from posenc_compare.stats.pairs import FEWEST

Column = Mapping[str, Mean]
"""What a table shows in one column, by label."""


def may_rank(columns: Sequence[Column]) -> bool:
    """Return whether any two schemes have seeds enough to be put in an order."""
    return any(
        sum(len(mean.values) >= FEWEST for mean in column.values()) >= 2
        for column in columns
    )


def best_of(column: Column, better: Better) -> set[str]:
    """Return the schemes of the best group, if they are told apart from any other."""
    means = {label: mean for label, mean in column.items() if mean.values}
    if len(means) < 2 or better == "neither":
        return set()
    groups = order(values_of([*means.values()])).groups
    if len(groups) < 2:
        return set()
    labels = list(means)
    return {labels[place] for place in groups[-1 if better == "higher" else 0]}


def order_lines(
    headings: Sequence[str], columns: Sequence[Column], better: Sequence[Better]
) -> tuple[str, ...]:
    """Return a line for every column that has a better end: groups, the best first.

    `{a, b} < c` says that both `a` and `b` are told apart from `c`, and that not all in
    the braces are from each other. `posenc_compare.stats.order` says how groups are
    made.

    Args:
        headings: of the columns.
        columns: with the schemes that the table shows.
        better: lower, higher or neither, of each; `a > b` says that a higher number
            is better and that `a` has it.
    """
    lines, most = [], 0
    for heading, column, end in zip(headings, columns, better, strict=True):
        means = {label: mean for label, mean in column.items() if mean.values}
        if len(means) < 2 or end == "neither":
            continue
        labels = list(means)
        found = order(values_of([*means.values()]))
        most = max(most, found.seeds)
        if found.groups:
            lines.append(f"{heading}: {_line(found, labels, higher=end == 'higher')}")
    if lines or not most:
        return tuple(lines)
    seeds = f"{most} seed{'s' * (most != 1)}"
    return (f"no order: {seeds}, {FEWEST} are needed",)


def _line(found: Order, labels: Sequence[str], *, higher: bool) -> str:
    named = [[labels[place] for place in group] for group in found.groups]
    if higher:
        named = [group[::-1] for group in named[::-1]]
    groups = [
        group[0] if len(group) == 1 else f"{{{', '.join(group)}}}" for group in named
    ]
    text = (" > " if higher else " < ").join(groups)
    low, high = found.common
    seeds = f"n = {low}" if low == high else f"n = {low} to {high}"
    few = [labels[place] for place in found.left_out]
    without = f"; without {', '.join(few)}: fewer than {FEWEST} seeds" if few else ""
    return f"{text} ({seeds}; {found.apart} of {found.pairs} pairs differ{without})"
