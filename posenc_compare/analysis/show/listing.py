"""Which rows a table has, and where they stand if no number ranks them."""

import re
from collections.abc import Iterable, Mapping, Sequence

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.format import number
from posenc_compare.analysis.show.means import Mean, means_of
from posenc_compare.registry import FAMILIES

YEAR = re.compile(r"\b(?:19|20)\d\d\b")
Row = Sequence[Mean | None]
"""What a scheme has in each column."""


def by_family(family: str, label: str) -> tuple[int, str]:
    """Return the place of a scheme: by family, then by name; strange families last."""
    known = family in FAMILIES
    return (FAMILIES.index(family) if known else len(FAMILIES), label)


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
