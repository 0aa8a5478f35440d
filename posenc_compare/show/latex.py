"""Tables in LaTeX, for the package booktabs: the text of the other formats.

The best numbers are bold. The p values of differences have a column of their own, and
there is no count of better seeds. A cell without a number holds a dash.
"""

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import pandas as pd
from tabulate import LATEX_ESCAPE_RULES

from posenc_compare.show.fit import in_parts
from posenc_compare.show.format import Cell, Table, cell_text
from posenc_compare.show.plots.paper import SIZES
from posenc_compare.validate import check_choice

BOLD = (
    "bold: the best group (step-down max-T test over paired seeds); its schemes need "
    "not be equal"
)
BRACES = "braces: schemes that do not all differ significantly from each other"
MINUS = re.compile(r"(?<![\w.)-])-(?=[0-9.])")
TINY = re.compile(r"(?<=\.\d{3}) ± (\S+e-\d+)")  # beyond the digits of a mean
HYPHENS = re.compile("-(?=-)")  # which LaTeX would join with the next
SMALL = r"\footnotesize\setlength{\tabcolsep}{2pt}"
LETTER = 0.06  # inches of a digit in that type, and of the space between two columns
P = "p, "  # before the heading of the column whose p values these are
PACKAGE = r"% needs \usepackage{booktabs}"
# Brackets and stars at the start of a row would be options of the line break; a bar
# is a dash in the fonts that LaTeX begins with, `\^{}` an accent over nothing, and a
# backtick a quotation mark.
LATEX = str.maketrans(
    {
        **LATEX_ESCAPE_RULES,
        **{"[": "{[}", "]": "{]}", "*": "{*}", "±": r"$\pm$"},
        **{"↓": r"$\downarrow$", "↑": r"$\uparrow$", "≤": r"$\le$"},
        **{"|": r"\textbar{}", "^": r"\textasciicircum{}", "`": r"\textasciigrave{}"},
        "—": r"\textemdash{}",
    }
)


def as_latex(tables: Iterable[Table], size: str = "") -> str:
    """Return tables in LaTeX, with a caption, and the lines beneath each.

    A size, `column` or `page`, is the width of paper that they fit: in small type, and
    where needed in parts that stand one below another.
    """
    if size:
        check_choice("size", size, tuple(SIZES))
    return "".join(f"{PACKAGE}\n{_float(_with_p(table), size)}" for table in tables)


def _with_p(table: Table) -> Table:
    """Return a table with a column of p behind each column of differences."""
    columns: list[tuple[str, Sequence[str | Cell]]] = []
    for place, name in enumerate(table.head):
        cells = [row[place] for row in table.rows]
        columns.append((name, cells))
        p = [cell.p if isinstance(cell, Cell) else math.nan for cell in cells]
        if not all(map(math.isnan, p)):
            texts = ["" if math.isnan(one) else f"{one:.3f}" for one in p]
            columns.append((f"{P}{name}", texts))
    head = [name for name, _ in columns]
    rows = [*zip(*(cells for _, cells in columns), strict=True)]
    return replace(table, head=head, rows=rows)


def _tabular(table: Table, size: str) -> str:
    """Return a table without caption and lines, the best numbers bold."""
    rows = [[latex(_text(one, table.seeds, size)) for one in row] for row in table.rows]
    for i, j in table.best:
        rows[i][j] = rf"\textbf{{{rows[i][j]}}}"
    columns = zip(table.head, zip(*table.rows, strict=True), strict=True)
    sides = "".join("r" if _of_numbers(*one) else "l" for one in columns)
    heads = [_heading(text, side) for text, side in zip(table.head, sides, strict=True)]
    style = pd.DataFrame(rows, columns=range(len(heads)), dtype=object).style
    style.hide(axis="index").format_index(heads.__getitem__, axis=1)
    return style.to_latex(column_format=sides, hrules=True)


def _of_numbers(name: str, cells: Sequence[str | Cell]) -> bool:
    """Return whether a column has numbers, which are aligned on the right."""
    return name.startswith(P.strip()) or any(isinstance(cell, Cell) for cell in cells)


def _heading(text: str, side: str) -> str:
    """Return a heading, whose lines stand one below another."""
    lines = [*map(latex, text.split("\n"))]
    stacked = r" \\ ".join(lines)
    return rf"\shortstack[{side}]{{{stacked}}}" if len(lines) > 1 else stacked


def latex(text: str) -> str:
    """Escape what LaTeX would act on, and give numbers below 0 a minus sign."""
    return MINUS.sub("$-$", HYPHENS.sub("-{}", text.translate(LATEX)))


def _float(table: Table, size: str) -> str:
    note, _, _ = table.note.partition(";")  # the rest is of what is not in a paper
    caption = latex(f"{table.name} ({note})" if note else table.name)
    lines = [*table.lines, *[BOLD] * bool(table.best)]
    lines += [BRACES] * any("{" in line for line in table.lines)
    name = "table*" if size == "page" else "table"
    parts = _fitting(table, size) if size else [table]
    text = f"\\begin{{{name}}}[tb]\n\\centering\n\\caption{{{caption}}}\n"
    text += f"{SMALL}\n" * bool(size)
    text += "\\par\\smallskip\n".join(_tabular(part, size) for part in parts)
    if lines:
        beneath = "\\par\n".join(map(latex, lines))
        text += (
            "\\par\\smallskip\\parbox{\\linewidth}{\\footnotesize\\raggedright\n"
            f"{beneath}\\par\n}}\n"
        )
    return f"{text}\\end{{{name}}}\n"


def _fitting(table: Table, size: str) -> list[Table]:
    """Return a table in parts that fit a width of paper, with headings of few words."""
    texts = [[_text(one, table.seeds, size) for one in row] for row in table.rows]
    widths = [
        max(map(len, (*name.split(), *column)))
        for name, column in zip(table.head, zip(*texts, strict=True), strict=True)
    ]
    head = [
        "\n".join(textwrap.wrap(name, width, break_long_words=False))
        for name, width in zip(table.head, widths, strict=True)
    ]
    room = int(SIZES[size] / LETTER)
    beside = {
        place
        for place, (before, name) in enumerate(pairwise(table.head), 1)
        if name == f"{P}{before}"
    }
    spaced = [width + 1 for width in widths]
    return in_parts(replace(table, head=head), spaced, room, beside)


def _text(cell: str | Cell, seeds: int, size: str) -> str:
    """Return the text of a cell, which a size brings closer together."""
    if isinstance(cell, str):
        return cell
    if cell.mean is None:
        return "—"
    text = cell_text(cell, seeds, short=True)
    if not size:
        return text
    return TINY.sub(lambda m: f"±{float(m[1]):.3f}", text).replace(" ± ", "±")
