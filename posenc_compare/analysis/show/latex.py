r"""Tables in LaTeX as they go into a paper, for the package booktabs.

Numbers of a column stand with their decimal points below each other, in math mode, so
that signs and powers of ten are real; the best ones are bold. What a cell says in words
is a note below the table.
"""

import re
import string
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tabulate import LATEX_ESCAPE_RULES

from posenc_compare.analysis.show.format import Cell, Places, Row, Table, number

WORD = re.compile(r"[a-z0-9]+")
POWER = re.compile(r"e([-+][0-9]+)$")
REAL = r"-?[0-9.]+(?:e[-+][0-9]+)?"
NUMBERS = re.compile(rf"({REAL})(?: ± ({REAL}))?")
MINUS = re.compile(r"(?<![\w.)-])-(?=[0-9.])")
PACKAGE = r"% needs \usepackage{booktabs}"
HEADING = 22  # characters of a line of a heading
LABEL = 16  # words of a label
NONE = "n/a"  # says no more than a dash
# Brackets and stars at the start of a row would be options of the line break; a bar
# is a dash in the fonts that LaTeX begins with, and `\^{}` an accent over nothing.
LATEX = str.maketrans(
    {
        **LATEX_ESCAPE_RULES,
        **{"[": "{[}", "]": "{]}", "*": "{*}", "±": r"$\pm$"},
        **{"↓": r"$\downarrow$", "↑": r"$\uparrow$", "≤": r"$\le$"},
        **{"|": r"\textbar{}", "^": r"\textasciicircum{}"},
    }
)


@dataclass(frozen=True)
class Number:
    """The parts of a number, each in a column of its own.

    Attributes:
        whole: what is before the decimal point.
        rest: the point and what follows it.
        spread: the half width of the interval; empty if there is none.
        mark: of a note, or words.
    """

    whole: str
    rest: str
    spread: str = ""
    mark: str = ""


class Notes:
    """The notes of a table, each with a letter of its own."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def mark(self, note: str) -> str:
        """Return the raised letter of a note; the same one for the same words."""
        count = len(self.letters)
        letter = string.ascii_lowercase[count % 26] * (1 + count // 26)
        return rf"\textsuperscript{{{self.letters.setdefault(note, letter)}}}"

    @property
    def lines(self) -> list[str]:
        """Return the notes with their letters, in LaTeX."""
        return [f"{self.mark(note)} {latex(note)}" for note in self.letters]


def as_latex(tables: Iterable[Table]) -> str:
    """Return tables in LaTeX, with a caption, a label, and notes beneath each."""
    parts, labels = [], Counter[str]()
    for table in tables:
        label = _slug(table.title)
        labels[label] += 1
        copy = f"-{labels[label]}" if labels[label] > 1 else ""
        parts.append(f"{PACKAGE}\n{_float(table, f'{label}{copy}')}\n")
    return "".join(parts)


def _float(table: Table, label: str) -> str:
    notes = Notes()
    rows = [
        [
            _cell(one, table.seeds, notes)
            if isinstance(one, Cell)
            else (_text(one) if place else latex(one))
            for place, one in enumerate(row)
        ]
        for row in table.rows
    ]
    lines = [
        r"\begin{table}[tb]",
        r"\centering",
        rf"\caption{{{latex(table.caption or table.title)}}}",
        rf"\label{{tab:{label}}}",
        r"\par\smallskip",
        _tabular(table.head, rows, table.best),
    ]
    beneath = notes.lines + [latex(line) for line in table.lines]
    if beneath:
        lines.append(r"\par\smallskip\parbox{\linewidth}{\footnotesize\raggedright")
        lines += [rf"{line}\par" for line in beneath] + ["}"]
    return "\n".join([*lines, r"\end{table}"])


def latex_table(head: list[str], body: Iterable[Row]) -> str:
    """Return a LaTeX tabular of texts; those that are numbers are aligned."""
    return _tabular(head, [[_text(str(one)) for one in row] for row in body], set())


def latex(text: str) -> str:
    """Escape what LaTeX would act on, and give numbers below 0 a minus sign."""
    return MINUS.sub("$-$", text.translate(LATEX))


def _tabular(head: list[str], rows: list[list[Number | str]], best: Places) -> str:
    columns = [[row[j] for row in rows] for j in range(len(head))]
    widths = [_width(column) for column in columns]
    layouts = ("l", "l", "r@{}l", "r@{}l@{}l")
    first = [
        _over(width, _stacked(name)) for width, name in zip(widths, head, strict=True)
    ]
    lines = [
        rf"\begin{{tabular}}{{{''.join(layouts[width] for width in widths)}}}",
        r"\toprule",
        " & ".join(first) + r" \\",
        r"\midrule",
    ]
    for i, row in enumerate(rows):
        cells = [
            _parts(one, widths[j], bold=(i, j) in best) for j, one in enumerate(row)
        ]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _width(column: list[Number | str]) -> int:
    """Return how many columns of LaTeX a column takes."""
    numbers = [one for one in column if isinstance(one, Number)]
    return (3 if any(one.spread for one in numbers) else 2) if numbers else 1


def _over(width: int, text: str) -> str:
    """Return text that spans the columns of a column."""
    return rf"\multicolumn{{{width}}}{{c}}{{{text}}}" if width > 1 else text


def _stacked(heading: str) -> str:
    """Return a heading in lines, if it is wider than numbers are."""
    lines = textwrap.wrap(heading, HEADING) or [heading]
    text = r" \\ ".join(map(latex, lines))
    return rf"\shortstack{{{text}}}" if len(lines) > 1 else text


def _parts(one: Number | str, width: int, *, bold: bool) -> str:
    if isinstance(one, str):
        return _over(width, one)
    parts = [one.whole, one.rest, one.spread][:width]
    form = r"{{\boldmath ${}$}}" if bold else "${}$"
    written = [form.format(part) if part else "" for part in parts]
    return " & ".join(written) + one.mark


def _cell(cell: Cell, seeds: int, notes: Notes) -> Number | str:
    """Return a cell of a comparison of so many seeds; its words become notes."""
    if cell.mean is None:
        note = cell.note or NONE
        return "---" if note == NONE else f"---{notes.mark(note)}"
    mark = latex(cell.more)
    if cell.n < seeds and not mark:
        mark = notes.mark(f"n = {cell.n}")
    if cell.half_width is not None:
        return _number(number(cell.mean), number(cell.half_width), mark)
    if cell.rounding:
        return _number("0", "", notes.mark("0 but for rounding") + mark)
    return _number(number(cell.mean), "", mark)


def _text(text: str) -> Number | str:
    found = NUMBERS.fullmatch(text)
    return _number(found[1], found[2] or "", "") if found else latex(text)


def _number(mean: str, spread: str, mark: str) -> Number:
    whole, point, rest = _powers(mean).partition(".")
    if not point:
        whole, times, rest = _powers(mean).partition(r" \times")
        point = times
    return Number(
        whole, point + rest, rf"{{}}\pm {_powers(spread)}" * bool(spread), mark
    )


def _powers(text: str) -> str:
    return POWER.sub(lambda found: rf" \times 10^{{{int(found[1])}}}", text)


def _slug(title: str) -> str:
    """Return the first words of a title before its brackets, with hyphens."""
    return "-".join(WORD.findall(title.partition(" (")[0].lower())[:LABEL])
