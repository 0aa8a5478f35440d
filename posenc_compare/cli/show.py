"""Write tables to stdout in the format asked for."""

import json
import sys
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.show.format import csv_text, markdown_table

FORMATS = ("table", "json", "csv", "md")
FIRST = 40  # width of the first column; longer names take several lines


def show(
    title: str, head: list[str], body: list[list[Any]], format: str = "table"
) -> None:
    """Print one table, with nothing in it that a terminal would act on.

    Args:
        title: above the table, in the format `table` only.
        head: column names.
        body: rows of cells.
        format: table, json, csv or md.
    """
    title, body = clean(title), clean(body)
    if format == "json":
        rows = [dict(zip(head, row, strict=True)) for row in body]
        print(json.dumps(rows, indent=2))
    elif format == "csv":
        print(csv_text(head, body), end="")
    elif format == "md":
        print(markdown_table(head, body))
    else:
        _print_rich(title, head, body)


def _print_rich(title: str, head: list[str], body: list[list[Any]]) -> None:
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=None)
    widest = max(cell_len(str(row[0])) for row in [head, *body])
    for i, name in enumerate(head):
        width = min(FIRST, widest) if i == 0 else None
        table.add_column(Text(name, style="bold"), width=width, overflow="fold")
    for row in body:
        table.add_row(*(Text(str(cell)) for cell in row))
    # Piped output keeps its full width: nothing is cut for a terminal that is not
    # there.
    width = None if sys.stdout.isatty() else 200
    console = Console(width=width, highlight=False)
    console.print(table)
    console.print()
