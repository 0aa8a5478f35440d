"""The commands that show records: tables, plots and the report.

They read files and nothing else: no scheme runs, and no plugin is imported.
"""

import json
from collections import Counter
from pathlib import Path

from posenc_compare.analysis.records.cells import Cell
from posenc_compare.analysis.records.load import load_records, sound, tell_apart
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.records.store import Store
from posenc_compare.analysis.show.plots import draw_all
from posenc_compare.analysis.show.report import write_report
from posenc_compare.analysis.show.tables import (
    as_csv,
    as_markdown,
    display_tables,
    long_table,
    without_result,
    write_tables,
)
from posenc_compare.cli.say import say, tell
from posenc_compare.cli.show import show


def show_run(cells: list[Cell], store: Store, format: str) -> Counter[str]:
    """Print the tables of a run, write everything, and count its records by status."""
    keys = dict.fromkeys(cell.key() for cell in cells)
    found = (r for key in keys if (r := store.read(key)) is not None)
    records = sound(found, say, arrays=False)
    _show_tables(tell_apart(records, lambda line: None), format)
    everything = load_records(store.folder, say)  # which says what differs
    write_tables(everything, store.folder)
    draw_all(everything, store.folder, say)
    say(f"tables and plots in {store.folder}; `posenc-compare report` puts them in one")
    return Counter(record.status for record in records)


def table(folder: Path, format: str, out: Path | None) -> None:
    """Print the tables of a folder of records, and write them to `out` if given."""
    records = load_records(folder, say, arrays=False)
    _show_tables(records, format)
    if out:
        for path in write_tables(records, out):
            say(f"wrote {path}")


def plot(folder: Path, out: Path | None) -> None:
    """Draw the plots of a folder of records and print their paths."""
    for path in draw_all(load_records(folder, say), out or folder, say):
        tell(str(path))


def report(folder: Path, out: Path | None) -> None:
    """Write the report of a folder of records and print its path."""
    path = out or folder / "report.html"
    write_report(load_records(folder, say), folder.resolve().name, path, say)
    tell(str(path))


def _show_tables(records: list[Record], format: str) -> None:
    if format in ("json", "csv"):
        long = long_table(records)
        if format == "csv":
            print(as_csv(long), end="")
        else:
            rows = long.astype(object).where(long.notna(), None)
            print(json.dumps(rows.to_dict(orient="records"), indent=2))
    elif format == "md":
        print(as_markdown(display_tables(records) + without_result(records)), end="")
    else:
        for part in display_tables(records) + without_result(records):
            show(part.title, part.head, part.body)
