"""The command that counts the records of a folder."""

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from posenc_compare.cli.console import name_of, say, show
from posenc_compare.cli.options import Folder, Format, Formats
from posenc_compare.records.load import load_records
from posenc_compare.records.store import Store

LISTED = 20  # cells that are named one by one
LOOK = 1.0  # seconds between two looks at a folder that is watched


def status(
    folder: Folder,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print again whenever a record arrives.")
    ] = False,
    format: Formats = Format.table,
) -> int:
    """Count the records of a folder, and list errors."""
    try:
        code, seen = _count(folder, format), _changed(folder)
        while watch:
            time.sleep(LOOK)
            if (now := _changed(folder)) != seen:
                code, seen = _count(folder, format), now
    except KeyboardInterrupt:  # the only end of a watch
        return 130
    return code


def _changed(folder: Path) -> tuple[int, ...]:
    """Return when records last came, loose ones or packed ones."""
    store = Store(folder)
    places = (store.cells, store.packed)
    return tuple(p.stat().st_mtime_ns if p.exists() else 0 for p in places)


def _count(folder: Path, format: str) -> int:
    """Print the counts; return 1 if a cell failed or is lost."""
    store = Store(folder)
    records = load_records(folder, say, arrays=False)
    counts = Counter((r.measure, r.status) for r in records)
    states = ("ok", "unsupported", "failed", "lost")
    body = [
        [measure, *(counts[measure, state] for state in states)]
        for measure in sorted({measure for measure, _ in counts})
    ]
    show(f"{len(records)} records in {folder}", ["measure", *states], body, format)
    for record in [r for r in records if r.status in ("failed", "lost")][:LISTED]:
        name = name_of(record)
        say(f"{record.status}: {name} ({record.key}): {record.error}")
    unfinished = len(list(store.checkpoints.glob("[!.]*")))
    if unfinished:
        say(
            f"{unfinished} unfinished trainings with checkpoints in {store.checkpoints}"
        )
    sys.stdout.flush()  # for a pipe that is watched
    return int(bool(sum(counts[m, s] for m, s in counts if s in ("failed", "lost"))))
