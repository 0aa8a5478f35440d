"""Tables in LaTeX, for the package booktabs: the text of the other formats.

The best numbers are bold. Of a difference there is the star, but no p and no count of
better seeds. A cell without a number holds a dash.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from tabulate import LATEX_ESCAPE_RULES

from posenc_compare.show.format import Cell, Places, Row, Table, cell_text

BOLD = "bold: the best group (step-down max-T test over paired seeds)"
BRACES = "braces: schemes that do not all differ significantly from each other"
MINUS = re.compile(r"(?<![\w.)-])-(?=[0-9.])")
HYPHENS = re.compile("-(?=-)")  # which LaTeX would join with the next
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


def as_latex(tables: Iterable[Table]) -> str:
    """Return tables in LaTeX, with a caption, and the lines beneath each."""
    return "".join(f"{PACKAGE}\n{_float(table)}" for table in tables)


def latex_table(
    head: Sequence[str],
    body: Iterable[Row],
    best: Places = frozenset(),
    **layout: Any,
) -> str:
    """Return a LaTeX tabular of texts, the best bold."""
    rows = [[latex(str(one)) for one in row] for row in body]
    for i, j in best:
        rows[i][j] = rf"\textbf{{{rows[i][j]}}}"
    headings = [*map(latex, head)]
    style = pd.DataFrame(rows, columns=range(len(head)), dtype=object).style
    style.hide(axis="index").format_index(headings.__getitem__, axis=1)
    return style.to_latex(column_format="l" * len(head), hrules=True, **layout)


def latex(text: str) -> str:
    """Escape what LaTeX would act on, and give numbers below 0 a minus sign."""
    return MINUS.sub("$-$", HYPHENS.sub("-{}", text.translate(LATEX)))


def _float(table: Table) -> str:
    rows = [[_cell(one, table.seeds) for one in row] for row in table.rows]
    layout = {"position": "tb", "position_float": "centering"}
    note, _, _ = table.note.partition(";")  # the rest is of what is not in a paper
    layout["caption"] = latex(f"{table.name} ({note})" if note else table.name)
    text = latex_table(table.head, rows, table.best, **layout)
    lines = [*table.lines, *[BOLD] * bool(table.best)]
    lines += [BRACES] * any("{" in line for line in table.lines)
    if not lines:
        return text
    beneath = "\\par\n".join(map(latex, lines))
    return text.removesuffix("\\end{table}\n") + (
        "\\par\\smallskip\\parbox{\\linewidth}{\\footnotesize\\raggedright\n"
        f"{beneath}\\par\n}}\n\\end{{table}}\n"
    )


def _cell(cell: str | Cell, seeds: int) -> str:
    if isinstance(cell, Cell):
        return "—" if cell.mean is None else cell_text(cell, seeds, short=True)
    return cell
