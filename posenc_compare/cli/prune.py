"""The command that removes what older versions of code have made."""

from typing import Annotated

import typer

from posenc_compare.cli.console import name_of, say, show
from posenc_compare.cli.options import Folder, Format, Formats


def prune(
    folder: Folder,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the records, remove none.")
    ] = False,
    format: Formats = Format.table,
) -> None:
    """Remove records that newer code of a scheme has made anew."""
    from posenc_compare.analysis.records.load import load_records
    from posenc_compare.analysis.records.pack import remove
    from posenc_compare.analysis.records.selection import Selection

    every = load_records(folder, lambda line: None, arrays=False)
    kept = load_records(folder, say, arrays=False, selection=Selection())
    old = {record.key: record for record in every}
    for record in kept:
        del old[record.key]
    body = [[name_of(record), key] for key, record in old.items()]
    say(f"{len(old)} of {len(every)} records are of older code")
    if old:
        show("Records of older code", ["record", "key"], sorted(body), format)
    if old and not dry_run:
        remove(folder, old.keys())
        say(f"{len(old)} records removed from {folder}")
