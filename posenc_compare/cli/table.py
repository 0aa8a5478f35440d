"""The command that prints the tables of a folder of records."""

import json
from typing import TYPE_CHECKING

from posenc_compare.cli.console import say, show
from posenc_compare.cli.options import Folder, Format, Formats, Written

if TYPE_CHECKING:
    from posenc_compare.analysis.records.record import Record


def table(folder: Folder, format: Formats = Format.table, out: Written = None) -> None:
    """Print the tables of a run again, from its records."""
    from posenc_compare.analysis.records.load import load_records
    from posenc_compare.analysis.show.tables import write_tables

    records = load_records(folder, say, arrays=False)
    show_tables(records, format)
    for path in write_tables(records, out) if out else ():
        say(f"wrote {path}")


def show_tables(records: "list[Record]", format: str) -> None:
    """Print the tables of records; as JSON or CSV, every number of them."""
    from posenc_compare.analysis.show.format import as_markdown
    from posenc_compare.analysis.show.long import as_csv, long_table
    from posenc_compare.analysis.show.tables import display_tables, without_result

    if format == "csv":
        print(as_csv(long_table(records)), end="")
    elif format == "json":
        long = long_table(records)
        rows = long.astype(object).where(long.notna(), None)
        print(json.dumps(rows.to_dict(orient="records"), indent=2))
    elif format == "md":
        print(as_markdown(display_tables(records) + without_result(records)), end="")
    else:
        for part in display_tables(records) + without_result(records):
            show(part.title, part.head, part.body, lines=part.lines)
