"""The report: one HTML file that holds all there is to see, made from records alone."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from posenc_compare.analysis.core.files import write_file
from posenc_compare.analysis.records.load import Warn
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.contents import contents_of
from posenc_compare.analysis.show.figures import Plate, plates_of
from posenc_compare.analysis.show.page import render
from posenc_compare.errors import StoreError


def write_report(
    records: list[Record],
    title: str,
    path: Path,
    warn: Warn = warnings.warn,
    *,
    plots: bool = True,
) -> None:
    """Write the report of records to a file.

    Args:
        records: as `load_records` returns them.
        title: of the page.
        path: of the file; it is replaced if it is there.
        warn: called with a line for every plot that is not in it.
        plots: whether to draw any.

    Raises:
        StoreError: if the file cannot be written.
    """
    text = report_html(records, title, plates_of(records, warn) if plots else ())
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise StoreError(f"{path}: must take a report, got {error}") from error


def report_html(records: list[Record], title: str, plates: Sequence[Plate] = ()) -> str:
    """Return the page.

    Args:
        records: as `load_records` returns them.
        title: of the page.
        plates: its plots.
    """
    return render(title, **contents_of(records, plates))
