"""The order of the rows of a table, and what may be said of it beneath the table.

Where no number ranks schemes they stand by family and name. Schemes whose numbers are
all the same have one row.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from posenc_compare.records.quantities import Better
from posenc_compare.records.record import Record
from posenc_compare.registry import FAMILIES
from posenc_compare.show.format import number
from posenc_compare.show.means import Mean, means_of, values_of
from posenc_compare.stats.order import Order, order
from posenc_compare.stats.pairs import FEWEST

YEAR = re.compile(r"\b(?:19|20)\d\d\b")
Column = Mapping[str, Mean]
"""What a table shows in one column, by label."""
Row = Sequence[Mean | None]
"""What a scheme has in each column."""


def by_family(family: str, label: str) -> tuple[int, str]:
    """Return the place of a scheme: by family, then by name; strange families last."""
    known = family in FAMILIES
    return (FAMILIES.index(family) if known else len(FAMILIES), label)


@dataclass(frozen=True)
class Ranking:
    """What the test of all pairs says of the schemes of a column.

    Attributes:
        groups: labels, the best group first; none if too few schemes have seeds enough.
        few: labels with too few seeds.
        better: which end is.
        found: the order of their numbers.
    """

    groups: list[list[str]]
    few: list[str]
    better: Better
    found: Order

    @property
    def best(self) -> set[str]:
        """Return the best group, if any other scheme differs from all of it."""
        return set(self.groups[0]) if len(self.groups) > 1 else set()

    @property
    def text(self) -> str:
        """Return the groups, and how many seeds and pairs they rest on."""
        groups = [
            group[0] if len(group) == 1 else f"{{{', '.join(group)}}}"
            for group in self.groups
        ]
        text = (" > " if self.better == "higher" else " < ").join(groups)
        low, high = self.found.common
        seeds = f"n = {low}" if low == high else f"n = {low} to {high}"
        few = f"; without {', '.join(self.few)}: fewer than {FEWEST} seeds"
        pairs = f"{self.found.apart} of {self.found.pairs} pairs differ"
        return f"{text} ({seeds}; {pairs}{few if self.few else ''})"


def ranking(column: Column, better: Better) -> Ranking | None:
    """Return the ranking of the schemes of a column; None if nothing is to be ranked.

    `posenc_compare.stats.order` says how groups are made.
    """
    means = {label: mean for label, mean in column.items() if mean.values}
    if len(means) < 2 or better == "neither":
        return None
    labels, found = list(means), order(values_of([*means.values()]))
    groups = [[labels[place] for place in group] for group in found.groups]
    if better == "higher":
        groups = [group[::-1] for group in groups[::-1]]
    return Ranking(groups, [labels[place] for place in found.left_out], better, found)


def may_rank(columns: Sequence[Column]) -> bool:
    """Return whether any two schemes have seeds enough to be put in an order."""
    return any(
        sum(len(mean.values) >= FEWEST for mean in column.values()) >= 2
        for column in columns
    )


def order_lines(
    headings: Iterable[str], rankings: Iterable[Ranking | None]
) -> tuple[str, ...]:
    """Return a line for every column that has a ranking: groups, the best first.

    `{a, b} < c` says that both `a` and `b` differ significantly from `c`, and that not
    all in the braces do from each other; `a > b` that a higher number is better and
    that `a` has it.
    """
    known = [(k, one) for k, one in zip(headings, rankings, strict=True) if one]
    lines = [f"{heading}: {one.text}" for heading, one in known if one.groups]
    most = max((one.found.seeds for _, one in known), default=0)
    if lines or not most:
        return tuple(lines)
    seeds = f"{most} seed{'s' * (most != 1)}"
    return (f"no order: {seeds}, {FEWEST} are needed",)


def alike(rows: Mapping[str, Row]) -> dict[str, str]:
    """Return the rows that cannot be told from another row, each with that other.

    Two rows are alike if every seed has the same numbers in every column, as a table
    prints them. A row of one number throughout, such as a score at the end of its
    scale, is alike to none. Of rows alike the scheme published first stands for all.

    Args:
        rows: by label.
    """
    groups: dict[object, list[str]] = {}
    for label, row in rows.items():
        printed = tuple(_printed(mean) for mean in row)
        if len({text for column in printed for _, text in column}) > 1:
            groups.setdefault(printed, []).append(label)
    found = {}
    for labels in groups.values():
        first, *others = sorted(
            labels, key=lambda label: _published(label, rows[label])
        )
        found |= dict.fromkeys(others, first)
    return found


def alike_throughout(records: Iterable[Record]) -> dict[str, str]:
    """Return the schemes whose every number is that of another, each with that other.

    Numbers that no machine repeats, such as times, are left out.

    Args:
        records: of the measures and tasks that are compared.
    """
    known = list(records)
    timed = {
        (record.measure, name)
        for record in known
        for name, quantity in record.quantities.items()
        if not quantity.repeatable
    }
    rows: dict[str, dict[object, Mean]] = {}
    for mean in means_of(known):
        if (mean.measure, mean.quantity) not in timed:
            place = (mean.measure, mean.task, mean.quantity, mean.case, repr(mean.x))
            rows.setdefault(mean.scheme, {})[place] = mean
    places = {place: None for row in rows.values() for place in row}
    return alike({k: [row.get(place) for place in places] for k, row in rows.items()})


def same_lines(same: Mapping[str, str]) -> list[str]:
    """Return a line for each row that stands for others.

    Args:
        same: as `alike` returns it.
    """
    others: dict[str, list[str]] = {}
    for label, first in same.items():
        others.setdefault(first, []).append(label)
    return [f"{', '.join(o)}: the same as {first}" for first, o in others.items()]


def _printed(mean: Mean | None) -> tuple[tuple[int, str], ...]:
    values = mean.values if mean else {}
    return tuple((seed, number(value)) for seed, value in sorted(values.items()))


def _published(label: str, row: Row) -> tuple[int, str]:
    years = [YEAR.search(mean.source) for mean in row if mean]
    return (min(int(year[0]) if year else 9999 for year in years), label)
