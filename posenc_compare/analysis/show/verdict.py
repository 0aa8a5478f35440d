"""The best schemes of tables, and the reasons to claim less than tables seem to show.

Schemes are best of a column if the test of all pairs finds each of them significantly
better than each of the others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.settings.presets import PRESETS
from posenc_compare.analysis.show.format import Cell, Table, cell_text
from posenc_compare.stats.pairs import FEWEST

QUICK = PRESETS["quick"].training.steps
TABLES = 4  # that are summed up


@dataclass(frozen=True)
class Best:
    """The best schemes of a table, in the last column that has any.

    Attributes:
        column: its heading.
        names: of the schemes.
        others: how many other schemes have a number in this column.
        below: lines on schemes that do not beat a floor in this column.
    """

    column: str
    names: list[str]
    others: int
    below: tuple[str, ...]


def best_of_tables(tables: Sequence[Table]) -> dict[int, Best]:
    """Return the best schemes of the first tables that have any, by their place."""
    found = {place: best_of_table(table) for place, table in enumerate(tables)}
    known = [(place, best) for place, best in found.items() if best]
    return dict(known[:TABLES])


def best_of_table(table: Table) -> Best | None:
    """Return the best schemes of a table; None if no difference is significant."""
    if not table.best:
        return None
    column = max(j for _, j in table.best)
    cells = [row[column] for row in table.rows]
    count = sum(
        bool(family) and isinstance(cell, Cell) and cell.mean is not None
        for cell, family in zip(cells, table.families, strict=True)
    )
    rows = [i for i, j in sorted(table.best) if j == column]
    names = [cell_text(table.rows[i][0], table.seeds) for i in rows]
    below = table.below.get(column, ())
    return Best(table.head[column], names, count - len(names), below)


def warnings_of(records: Iterable[Record]) -> list[str]:
    """Return a sentence for each reason to claim less than the tables seem to show."""
    found: list[str] = []
    known = list(records)
    trained = [record for record in known if record.task]
    if not trained:
        found.append(
            "Nothing was trained. Measures without training describe schemes; none of "
            "them ranks schemes."
        )
    seeds = len({record.spec.seed for record in trained})
    if 0 < seeds < FEWEST:
        found.append(
            f"{seeds} seed{'s' * (seeds != 1)} cannot rank schemes: {FEWEST} are "
            f"needed. Differences between rows may be chance."
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
