"""The command that counts the records of a folder."""

from collections import Counter

from posenc_compare.cli.console import name_of, say, show
from posenc_compare.cli.options import Folder, Format, Formats
from posenc_compare.records.load import load_records
from posenc_compare.records.store import Store

LISTED = 20  # cells that are named one by one


def status(folder: Folder, format: Formats = Format.table) -> int:
    """Count the records of a folder, and list errors."""
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
            f"{unfinished} unfinished training runs with checkpoints in "
            f"{store.checkpoints}"
        )
    return int(bool(sum(counts[m, s] for m, s in counts if s in ("failed", "lost"))))
