"""The command that compares two folders of records."""

from pathlib import Path
from typing import Annotated

import typer

from posenc_compare.analysis.records.diff import difference, same_cell
from posenc_compare.analysis.records.load import load_records
from posenc_compare.cli.console import name_of, say, show
from posenc_compare.cli.options import Folder, Format, Formats


def diff(
    one: Folder,
    other: Annotated[Path, typer.Argument(help="Folder of another run.")],
    format: Formats = Format.table,
) -> int:
    """Compare the records of two folders, cell by cell."""
    records = [
        {same_cell(record): record for record in load_records(folder, say)}
        for folder in (one, other)
    ]
    body, same = [], 0
    for cell in {**records[0], **records[1]}:
        pair = [side.get(cell) for side in records]
        if pair[0] is None or pair[1] is None:
            present = pair[0] or pair[1]
            assert present is not None
            what = f"only in {one if pair[0] else other}"
            body.append([name_of(present), what])
        elif differing := difference(pair[0], pair[1]):
            body.append([name_of(pair[0]), "; ".join(differing)])
        else:
            same += 1
    title = f"{same} cells the same, {len(body)} not"
    if body or format == "table":
        show(title, ["cell", "difference"], sorted(body), format)
    return int(bool(body))
