"""The command that compares two folders of records."""

from pathlib import Path
from typing import Annotated

import typer

from posenc_compare.cli.console import name_of, say, show, tell
from posenc_compare.cli.options import Folder, Format, Formats
from posenc_compare.records.diff import difference, paired
from posenc_compare.records.load import load_records


def diff(
    one: Folder,
    other: Annotated[Path, typer.Argument(help="Folder of another run.")],
    format: Formats = Format.table,
) -> int:
    """Compare the records of two folders, cell by cell."""
    records = [load_records(folder, say) for folder in (one, other)]
    body, same = [], 0
    for left, right in paired(*records):
        if left and right:
            differing = difference(left, right)
            body += [[name_of(left), "; ".join(differing)]] if differing else []
            same += not differing
        elif present := left or right:
            body.append([name_of(present), f"only in {one if left else other}"])
    title = f"{same} cell{'s' * (same != 1)} the same, {len(body)} not"
    if body or format != "table":
        show(title, ["cell", "difference"], sorted(body), format)
    else:
        tell(title)
    return int(bool(body))
