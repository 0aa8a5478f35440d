"""A stamp in the file of a plot: whether it is of the same records and code.

Plots are drawn again only where that is not so.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl

from posenc_compare.analysis.core.files import read_file
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.paper import Paper
from posenc_compare.registry import Entry
from posenc_compare.sources import closure, code_sha256

LARGEST = 1 << 28  # bytes of a file that may be a plot


def stamp_of(entry: Entry, records: Iterable[Record], paper: Paper, dpi: int) -> str:
    """Return what the file of a plot says unseen: of what it was made.

    Args:
        entry: of the plot.
        records: it is drawn from; one that was made again counts as another.
        paper: it is drawn on.
        dpi: resolution of PNG.
    """
    code = code_sha256(closure(entry.module, entry.path)) if entry.path else ""
    made = sorted((r.key, r.label, r.status, *map(str, _facts(r))) for r in records)
    parts = (mpl.__version__, code, made, paper, dpi)
    return f"posenc-compare {hashlib.sha256(repr(parts).encode()).hexdigest()}"


def is_stamped(path: Path, stamp: str) -> bool:
    """Return whether a file holds this stamp."""
    try:
        return stamp.encode() in read_file(path, LARGEST)
    except (OSError, ValueError):
        return False


def _facts(record: Record) -> tuple[object, ...]:
    return record.provenance.text("started"), record.provenance.seconds
