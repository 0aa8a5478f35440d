"""Write tables to stdout in the format asked for."""

import csv
import io
import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

FORMATS = ("table", "json", "csv", "md")


def show(
    title: str, head: list[str], body: list[list[Any]], format: str = "table"
) -> None:
    """Print one table.

    Args:
        title: above the table, in the format `table` only.
        head: column names.
        body: rows of cells.
        format: table, json, csv or md.
    """
    if format == "json":
        rows = [dict(zip(head, row, strict=True)) for row in body]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif format == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([head, *body])
        print(text.getvalue(), end="")
    elif format == "md":
        print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
        for row in body:
            print(f"| {' | '.join(str(c).replace('|', chr(92) + '|') for c in row)} |")
    else:
        _print_rich(title, head, body)


def _print_rich(title: str, head: list[str], body: list[list[Any]]) -> None:
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=None)
    for i, name in enumerate(head):
        table.add_column(Text(name, style="bold"), no_wrap=i == 0)
    for row in body:
        table.add_row(*(Text(str(cell)) for cell in row))
    # Piped output keeps its full width: nothing is cut for a terminal that is not
    # there.
    width = None if sys.stdout.isatty() else 200
    console = Console(width=width, highlight=False)
    console.print(table)
    console.print()
