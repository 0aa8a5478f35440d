"""Tables as text: on a terminal, in Markdown and CSV; `latex` has them in LaTeX.

A table holds numbers until here. Names and messages in records are untrusted: `clean`
makes them harmless to read, once; the writers of each format escape what the format
would act on.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tabulate import tabulate

from posenc_compare.stats.level import ALPHA

if TYPE_CHECKING:
    from pandas import DataFrame

FORMULA = re.compile(r"\s*[=+\-@＝＋－＠\t\r\0']")  # noqa: RUF001
MARKDOWN = str.maketrans(
    {"\\": r"\\", "|": r"\|", "`": r"\`", "<": "&lt;", ">": "&gt;"}
)

REASON = 120  # characters of a reason in the cell of a table


@dataclass(frozen=True)
class Cell:
    """A number of a table, or why there is none.

    `half_width` is that of the 95 % interval over seeds: NaN for a single seed, and
    where all seeds have the same number up to rounding. Each scheme of the `best` group
    differs significantly from each outside of it.
    """

    mean: float | None = None  # over seeds; None if there is no number
    half_width: float = math.nan
    n: int = 0  # how many seeds there are
    note: str = ""  # notes of the seeds; where there is no number, why
    rounding: bool = False  # whether the number is 0 but for rounding, in all seeds
    best: bool = False
    over_documents: float = math.nan  # half width over seeds and documents, if known
    by_document: bool = False  # whether that one is printed
    ends: tuple[float, float] | None = None  # the range, of numbers with few values
    wins: int | None = None  # of a difference: how many seeds are better
    p: float = math.nan  # of a difference
    alike: bool | None = None  # whether a difference is shown to be small, if tested
    whole: bool = False  # whether it counts things, and is written without decimals
    text: str = ""  # as which it is shown, if not with the digits of other tables

    @property
    def interval(self) -> float:
        """Return the half width that is printed."""
        return self.over_documents if self.by_document else self.half_width


@dataclass(frozen=True)
class Table:
    """A table as a reader sees it, still in numbers.

    Of the lines, `orders` holds by column that on its order, and `below` those that
    name schemes below a floor.
    """

    name: str
    head: list[str]  # column headings, the scheme's first
    rows: Sequence[Sequence[str | Cell]]  # a name, or several texts, and then numbers
    seeds: int = 1  # of the whole comparison; a mean over fewer says so
    lines: tuple[str, ...] = ()  # beneath the table, on the order of its rows
    measures: frozenset[str] = frozenset()  # whose numbers it shows
    note: str = ""  # on what the numbers are; in brackets behind the name
    orders: Mapping[int, str] = field(default_factory=dict)
    below: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Return the name and the note."""
        return f"{self.name} ({self.note})" if self.note else self.name

    @property
    def body(self) -> list[list[str]]:
        """Return the text of the cells."""
        return self.texts()

    def texts(self, *, short: bool = False) -> list[list[str]]:
        """Return the text of the cells, without p if it is short."""
        return [
            [cell_text(cell, self.seeds, short=short) for cell in row]
            for row in self.rows
        ]

    @property
    def best(self) -> set[tuple[int, int]]:
        """Return the row and column of every cell that is bold."""
        return {
            (i, j)
            for i, row in enumerate(self.rows)
            for j, cell in enumerate(row)
            if isinstance(cell, Cell) and cell.best
        }


def of_columns(table: Table, places: Sequence[int]) -> Table:
    """Return some columns of a table, without lines on others."""
    others = {*range(len(table.head))} - {*places}
    lines = {line for place in others for line in table.below.get(place, ())}
    lines |= {table.orders.get(place, "") for place in others}
    return replace(
        table,
        head=[table.head[place] for place in places],
        rows=[[row[place] for place in places] for row in table.rows],
        lines=tuple(line for line in table.lines if line not in lines),
        orders={},
        below={},
    )


def number(value: float) -> str:
    """Write a number to three digits behind the point, or to four significant ones."""
    size = abs(value)
    if value != 0 and not 1e-3 <= size < 1e5:
        return f"{value:.1e}"
    digits = 3 if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0
    return f"{value:.{digits}f}"


def cell_text(cell: str | Cell, seeds: int, *, short: bool = False) -> str:
    """Return the text of a cell in a comparison of so many seeds.

    If it is short, it leaves out p and the seeds that are better.
    """
    if isinstance(cell, str):
        return cell
    if cell.mean is None:
        note = cell.note or "n/a"
        return note if len(note) <= REASON else f"{note[: REASON - 1]}…"
    if cell.text:
        return cell.text
    text = "0" if cell.rounding else number(cell.mean)
    text = f"{cell.mean:.0f}" if cell.whole else text
    if cell.ends and cell.ends[0] < cell.ends[1]:
        text = f"{text} ({cell.ends[0]:g} to {cell.ends[1]:g})"
    if not math.isnan(cell.interval):
        text = f"{text} ± {number(cell.interval)}"
    more = "" if cell.wins is None or short else f", {cell.wins}/{cell.n}"
    more += "" if math.isnan(cell.p) or short else f", p {cell.p:.3f}"
    if cell.n < seeds and not more:
        more = f" (n = {cell.n})"
    more += ", alike" * bool(cell.alike)
    return text + " (rounding)" * cell.rounding + more + " *" * (cell.p <= ALPHA)


def as_markdown(tables: Iterable[Table]) -> str:
    """Return tables in Markdown, with the lines beneath each."""
    parts = []
    for table in tables:
        rows = [[*map(markdown, row)] for row in table.body]
        for i, j in table.best:
            rows[i][j] = f"**{rows[i][j]}**"
        head = [*map(markdown, table.head)]
        grid = tabulate(rows, head, tablefmt="github", disable_numparse=True)
        title = f"**{markdown(table.title)}**"
        parts.append("\n\n".join([title, grid, *map(markdown, table.lines)]) + "\n")
    return "\n".join(parts)


def markdown(text: str) -> str:
    """Escape what Markdown and HTML would act on; `](` would be a link."""
    return text.translate(MARKDOWN).replace("](", r"\](")


def as_csv(frame: "DataFrame") -> str:
    """Return a frame as CSV; a missing number is an empty cell."""
    return csv_text([*frame.columns], cells_of(frame))


def cells_of(frame: "DataFrame") -> list[list[object]]:
    """Return the rows of a frame; a missing number is None."""
    return frame.astype(object).where(frame.notna(), None).to_numpy().tolist()


def csv_text(head: list[str], body: Iterable[Iterable[object]]) -> str:
    """Return CSV whose texts no spreadsheet takes for a formula; numbers stay."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(head)
    rows = [
        [f"'{c}" if isinstance(c, str) and FORMULA.match(c) else c for c in row]
        for row in body
    ]
    form = {"lineterminator": "\n", "quoting": csv.QUOTE_NONNUMERIC}
    csv.writer(text, **form).writerows(rows)
    return text.getvalue()
