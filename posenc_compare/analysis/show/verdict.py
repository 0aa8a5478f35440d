"""What a comparison says in a few words: who is best of a table, or why nobody is.

A sentence claims no more than the marks of its table: schemes are best of a column if
the test of all pairs tells each of them apart from each of the others.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.settings.presets import PRESETS
from posenc_compare.analysis.show.floors import BELOW
from posenc_compare.analysis.show.format import Cell, Table, cell_text
from posenc_compare.stats.pairs import FEWEST

QUICK = PRESETS["quick"].training.steps


@dataclass(frozen=True)
class Verdict:
    """The best of the last column of a table that has any.

    Attributes:
        column: its heading.
        best: rows of the best group, each told apart from each outside of it, and their
            numbers.
        count: of schemes with a number in this column.
        below: lines that name who does not beat a floor in this column.
    """

    column: str
    best: list[tuple[str, str]]
    count: int
    below: list[str]


def verdict(table: Table) -> Verdict | None:
    """Return who is best of a table; None if nobody is told apart."""
    places = table.best
    if not places:
        return None
    column = max(j for _, j in places)
    cells = [row[column] for row in table.rows]
    count = sum(
        bool(family) and isinstance(cell, Cell) and cell.mean is not None
        for cell, family in zip(cells, table.families, strict=True)
    )
    best = [
        (cell_text(table.rows[i][0], table.seeds), cell_text(cells[i], table.seeds))
        for i, j in sorted(places)
        if j == column
    ]
    heading = table.head[column]
    start = re.compile(rf"{re.escape(BELOW)} .* at {re.escape(heading)}: ")
    below = [line for line in table.lines if start.match(line)]
    return Verdict(heading, best, count, below)


def warnings_of(records: Iterable[Record]) -> list[str]:
    """Return a sentence for each reason to claim less than the tables seem to show."""
    found: list[str] = []
    known = list(records)
    trained = [record for record in known if record.task]
    if not trained:
        found.append(
            "Nothing here was trained. The measures describe schemes; none of them "
            "says which scheme is better."
        )
    seeds = len({record.spec.seed for record in trained})
    if 0 < seeds < FEWEST:
        found.append(
            f"{seeds} seed{'s' * (seeds != 1)} cannot put schemes in an order: "
            f"{FEWEST} are needed. Differences between rows may be chance."
        )
    steps = {record.spec.setting.get("steps") for record in trained}
    counts = [step for step in steps if isinstance(step, int)]
    if counts and max(counts) <= QUICK:
        found.append(
            f"At most {max(counts)} training steps, as in the preset quick: it shows "
            f"that everything works, and its networks are too small for claims."
        )
    lost = sum(record.status in ("failed", "lost") for record in known)
    if lost:
        found.append(
            f"{lost} of {len(known)} cells failed or were lost, and are in no mean."
        )
    return found
