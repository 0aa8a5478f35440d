"""The command that prints the tables of a folder of records."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_compare.cli.console import NUMBERS, say, show_numbers, show_parts
from posenc_compare.cli.options import Folder, Format, Formats

if TYPE_CHECKING:
    from posenc_compare.analysis.records.record import Record


def table(
    folder: Folder,
    format: Formats = Format.table,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write all tables to, besides.")
    ] = None,
) -> None:
    """Print the tables of a run again, from its records."""
    from posenc_compare.analysis.records.load import load_records
    from posenc_compare.analysis.show.tables import write_tables

    records = load_records(folder, say, arrays=False)
    show_tables(records, format)
    for path in write_tables(records, out) if out else ():
        say(f"wrote {path}")


def show_tables(records: "list[Record]", format: str) -> None:
    """Print the tables of records; as JSON or CSV, every number of them."""
    from posenc_compare.analysis.show.long import long_table
    from posenc_compare.analysis.show.tables import display_tables, without_result

    if format in NUMBERS:
        show_numbers(long_table(records), format)
    else:
        show_parts(display_tables(records) + without_result(records), format)
