r"""Tables in LaTeX as they go into a paper, for the package booktabs.

Numbers stand in math mode, so that signs and powers of ten are real, and the best ones
are bold. Of a difference there is the star, but no p and no count of better seeds. A
cell without a number holds a dash and the letter of a note below the table.
"""

import re
import string
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from tabulate import LATEX_ESCAPE_RULES

from posenc_compare.show.format import Cell, Row, Table, mean_text, number, words_behind

WORD = re.compile(r"[a-z0-9]+")
MINUS = re.compile(r"(?<![\w.)-])-(?=[0-9.])")
PACKAGE = r"% needs \usepackage{booktabs}"
HEADING = 22  # characters of a line of a heading
LABEL = 16  # words of a label
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


def as_latex(tables: Iterable[Table]) -> str:
    """Return tables in LaTeX, with a caption, a label, and notes beneath each."""
    parts, labels = [], Counter[str]()
    for table in tables:
        words = WORD.findall(table.name.lower())
        label = "-".join(words[:LABEL])
        labels[label] += 1
        copy = f"-{labels[label]}" if labels[label] > 1 else ""
        parts.append(f"{PACKAGE}\n{_float(table, f'tab:{label}{copy}')}")
    return "".join(parts)


def latex_table(head: Sequence[str], body: Iterable[Row]) -> str:
    """Return a LaTeX tabular of texts."""
    return _tabular(head, [[latex(str(one)) for one in row] for row in body], set())


def latex(text: str) -> str:
    """Escape what LaTeX would act on, and give numbers below 0 a minus sign."""
    return MINUS.sub("$-$", text.translate(LATEX))


def _float(table: Table, label: str) -> str:
    letters: dict[str, str] = {}
    rows = [[_cell(one, table.seeds, letters) for one in row] for row in table.rows]
    numeric = {
        j
        for row in table.rows
        for j, one in enumerate(row)
        if isinstance(one, Cell) and one.mean is not None
    }
    place = {"position": "tb", "position_float": "centering"}
    names = {"caption": latex(table.caption), "label": label}
    text = _tabular(table.head, rows, numeric, **place, **names)
    lines = [f"{_raised(letter)} {latex(note)}" for note, letter in letters.items()]
    lines += map(latex, table.lines)
    if not lines:
        return text
    beneath = "\\par\n".join(lines)
    return text.removesuffix("\\end{table}\n") + (
        "\\par\\smallskip\\parbox{\\linewidth}{\\footnotesize\\raggedright\n"
        f"{beneath}\\par\n}}\n\\end{{table}}\n"
    )


def _tabular(
    head: Sequence[str], rows: list[list[str]], numeric: set[int], **layout: Any
) -> str:
    """Return rows of LaTeX under their headings; numeric columns are set right."""
    frame = pd.DataFrame(rows, columns=range(len(head)), dtype=object)
    headings = [*map(_stacked, head)]
    style = frame.style.hide(axis="index")
    style.format_index(headings.__getitem__, axis=1)
    kinds = ("r" if j in numeric else "l" for j in range(len(head)))
    return style.to_latex(column_format="".join(kinds), hrules=True, **layout)


def _stacked(heading: str) -> str:
    """Return a heading in lines, if it is wider than numbers are."""
    lines = textwrap.wrap(heading, HEADING) or [heading]
    text = r" \\ ".join(map(latex, lines))
    return rf"\shortstack{{{text}}}" if len(lines) > 1 else text


def _cell(cell: str | Cell, seeds: int, letters: dict[str, str]) -> str:
    """Return a cell of a comparison of so many seeds."""
    if isinstance(cell, str):
        return latex(cell)
    if cell.mean is None:
        if not cell.note:
            return "---"
        count = len(letters)
        letter = string.ascii_lowercase[count % 26] * (1 + count // 26)
        return f"---{_raised(letters.setdefault(cell.note, letter))}"
    text = mean_text(cell, _real, r"\pm") + "^{*}" * cell.star
    text = rf"{{\boldmath ${text}$}}" if cell.best else f"${text}$"
    few = replace(cell, more="", star=False)  # the rest is too wide for a paper
    return f"{text}{latex(words_behind(few, seeds))}"


def _raised(letter: str) -> str:
    return rf"\textsuperscript{{{letter}}}"


def _real(value: float) -> str:
    """Return a number in math mode."""
    digits, power, exponent = number(value).partition("e")
    return rf"{digits} \times 10^{{{int(exponent)}}}" if power else digits
