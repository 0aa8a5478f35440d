"""The tables of a page with their anchors, each beside the plots of its measures."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from posenc_compare.analysis.show.figures import Plate
from posenc_compare.analysis.show.format import Table
from posenc_compare.analysis.show.tasks import page_name

SHORT = 24  # characters of a cell that is kept in one line


@dataclass(frozen=True)
class Line:
    """A row of a table on a page.

    Attributes:
        cells: text and class of each; the first names the row.
        family: of its scheme; empty for a row that is none.
        scheme: label of its scheme, if it is of one.
    """

    cells: list[tuple[str, str]]
    family: str
    scheme: str | None


@dataclass(frozen=True)
class Section:
    """A table on a page.

    Attributes:
        anchor: of its heading.
        heading: its title without what stands in brackets behind it.
        note: what stood in brackets.
        head: column headings.
        body: rows.
        lines: beneath it.
        before: plots above it.
        after: plots beneath it.
    """

    anchor: str
    heading: str
    note: str
    head: list[str]
    body: list[Line]
    lines: tuple[str, ...]
    before: list[Plate] = field(default_factory=list)
    after: list[Plate] = field(default_factory=list)


def anchors(names: Iterable[str]) -> dict[str, str]:
    """Return a word for each name, of letters, digits, `_`, `.` and `-`, all different.

    Args:
        names: which may be strangers'.
    """
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        word = start = page_name(name) or "_"
        count = 1
        while word in found.values():
            count += 1
            word = f"{start}-{count}"
        found[name] = word
    return found


def sections_of(
    tables: Sequence[Table], labels: Iterable[str], name: str = "table"
) -> list[Section]:
    """Return tables as a page shows them.

    Args:
        tables: in order.
        labels: of all schemes.
        name: that anchors begin with.
    """
    known = set(labels)
    return [
        Section(f"{name}-{i}", *_heading(t), t.head, _body(t, known), t.lines)
        for i, t in enumerate(tables, start=1)
    ]


def place(
    plates: Iterable[Plate], tables: Sequence[Table], sections: Sequence[Section]
) -> list[Plate]:
    """Put plots beside tables, the first above the first; return those without a place.

    Args:
        plates: in order.
        tables: that the sections show, in the same order.
        sections: plots are added to them.
    """
    rest: list[Plate] = []
    for i, plate in enumerate(plates):
        fit = [j for j, table in enumerate(tables) if plate.measure in table.measures]
        if i == 0 and sections:
            sections[0].before.append(plate)
        elif fit:
            sections[fit[-1]].after.append(plate)
        else:
            rest.append(plate)
    return rest


def scheme_of(row: str, labels: Container[str]) -> str | None:
    """Return the label of the scheme that a row is of, with a case or without."""
    for name in (row, row.partition(" + ")[0], row.removesuffix(", as trained")):
        if name in labels:
            return name
    return None


def _heading(table: Table) -> tuple[str, str]:
    """Return what stands before the last bracket of a title, and inside it."""
    heading, _, note = table.title.rpartition(" (")
    return (heading, note.removesuffix(")")) if heading else (table.title, "")


def _body(table: Table, labels: set[str]) -> list[Line]:
    families = table.families or ("",) * len(table.rows)
    return [
        Line(
            [
                (text, _look(text, best=(i, j) in table.best))
                for j, text in enumerate(row)
            ],
            families[i],
            scheme_of(row[0], labels),
        )
        for i, row in enumerate(table.body)
    ]


def _look(text: str, *, best: bool) -> str:
    return " ".join(["short"] * (len(text) < SHORT) + ["best"] * best)
