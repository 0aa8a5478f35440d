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
    """Remove records that newer code of a scheme has made anew.

    A record goes if the same cell, of this seed and setting, is there from newer code
    and came out well.
    """
    from posenc_compare.analysis.records.load import read_records
    from posenc_compare.analysis.records.pack import remove
    from posenc_compare.analysis.records.selection import remade

    every = read_records(folder, say, arrays=False)
    old = remade(every)
    body = [[name_of(record), record.key] for record in old]
    say(f"{len(old)} of {len(every)} records were made anew by newer code")
    if old:
        show("Records of older code", ["record", "key"], sorted(body), format)
    if old and not dry_run:
        remove(folder, [record.key for record in old])
        say(f"{len(old)} records removed from {folder}")
