"""Text that stays text: on a terminal, in CSV, in Markdown and in LaTeX.

Names and messages in records are those of strangers. `clean` makes them harmless to
read, once; the writers of each format escape what the format would act on.
"""

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

from tabulate import LATEX_ESCAPE_RULES, tabulate

FORMULA = re.compile(r"\s*[=+\-@＝＋－＠\t\r\0']")  # noqa: RUF001
MARKDOWN = str.maketrans(
    {"\\": r"\\", "|": r"\|", "`": r"\`", "<": "&lt;", ">": "&gt;"}
)
# Brackets and stars at the start of a row would be options of the line break; a bar
# is a dash in the fonts that LaTeX begins with, and `\^{}` an accent over nothing.
LATEX = str.maketrans(
    {
        **LATEX_ESCAPE_RULES,
        **{"[": "{[}", "]": "{]}", "*": "{*}", "±": r"$\pm$"},
        **{"|": r"\textbar{}", "^": r"\textasciicircum{}"},
    }
)

Row = Iterable[Any]


def csv_text(head: list[str], body: Iterable[Row]) -> str:
    """Return CSV whose texts no spreadsheet takes for a formula; numbers stay."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(head)
    rows = [[_guard(cell) for cell in row] for row in body]
    form = {"lineterminator": "\n", "quoting": csv.QUOTE_NONNUMERIC}
    csv.writer(text, **form).writerows(rows)
    return text.getvalue()


def unguard(cell: str) -> str:
    """Return the text that `csv_text` was given."""
    return cell.removeprefix("'")


def markdown_table(head: list[str], body: Iterable[Row]) -> str:
    """Return a Markdown table whose cells show as they are written."""
    rows = [[markdown(str(cell)) for cell in row] for row in body]
    heads = [markdown(name) for name in head]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


def markdown(text: str) -> str:
    """Escape what Markdown and HTML would act on; `](` would be a link."""
    return text.translate(MARKDOWN).replace("](", r"\](")


def latex_table(head: list[str], body: Iterable[Row]) -> str:
    """Return a LaTeX tabular for the package booktabs."""
    first, *rest = (
        " & ".join(latex(str(cell)) for cell in row) + r" \\" for row in [head, *body]
    )
    lines = [
        rf"\begin{{tabular}}{{{'l' * len(head)}}}",
        r"\toprule",
        first,
        r"\midrule",
        *rest,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def latex(text: str) -> str:
    """Escape what LaTeX would act on."""
    return text.translate(LATEX)


def _guard(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell
