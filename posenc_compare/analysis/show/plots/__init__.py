"""Plots, one file each: functions of records alone, registered with their captions.

Every plot takes the records of a run, with all measures and schemes, and returns a
figure, or None if they hold nothing for it.
"""

import warnings
from collections.abc import Callable, Container, Sequence
from pathlib import Path

from posenc_compare.analysis.core.files import write_file
from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.records.load import Warn
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.drawing import draw, draw_apart, of_plugin
from posenc_compare.analysis.show.plots.paper import OWN, Paper, on_paper
from posenc_compare.analysis.show.plots.plot import in_order
from posenc_compare.analysis.show.plots.stamp import is_stamped, stamp_of
from posenc_compare.errors import StoreError
from posenc_compare.registry import PLOTS, Entry
from posenc_compare.validate import check_choice

DPI = 300
FORMATS = ("png", "svg", "pdf")
Told = Callable[[Path, bool], None]
"""Hears of a file, and whether it was written anew."""


def images(
    records: list[Record],
    warn: Warn = warnings.warn,
    *,
    endings: Sequence[str] = ("png", "svg"),
    dpi: int = DPI,
    names: Container[str] | None = None,
) -> dict[str, bytes]:
    """Return every plot that the records allow, as the bytes of its files.

    Args:
        records: as `analysis.reading` returns them.
        warn: called with a line for every plot that cannot be drawn.
        endings: formats of every plot.
        dpi: resolution of PNG.
        names: of the plots; all, if not given.

    Returns:
        Bytes by file name, in the order of a report.
    """
    found: dict[str, bytes] = {}
    for entry in in_order():
        if names is None or entry.name in names:
            found |= _files(entry, records, warn, endings, dpi)
    return found


def _files(
    entry: Entry,
    records: list[Record],
    warn: Warn,
    endings: Sequence[str],
    dpi: int,
    stamp: str = "",
) -> dict[str, bytes]:
    """Return the files of one plot; none if there is nothing to draw, or it fails."""
    if of_plugin(entry) and entry.path:
        files, problem = draw_apart(entry, records, endings, dpi, stamp)
    else:
        files, problem = draw(entry.name, records, endings, dpi, stamp)
    if problem:
        warn(clean(f"plot {entry.name}: not drawn: {problem}", 200))
    return files


def undrawn(folder: Path) -> list[str]:
    """Return the plots of plugins that a folder has no file of."""
    return [
        entry.name
        for entry in in_order()
        if of_plugin(entry) and not list(folder.glob(f"{entry.name}.*"))
    ]


def draw_all(
    records: list[Record],
    folder: Path,
    warn: Warn = warnings.warn,
    plots: str = "all",
    format: str = "png,svg",
    paper: Paper = OWN,
    told: Told = lambda path, new: None,
) -> list[Path]:
    """Write plots that the records allow; those of the same records stay as they are.

    Args:
        records: as `analysis.reading` returns them.
        folder: where the files go; made if it is missing.
        warn: called with a line for every plot that cannot be drawn.
        plots: comma-separated names or globs, or `all`.
        format: comma-separated endings of files: png, svg or pdf.
        paper: what a user wants of all figures.
        told: called with every file, and whether it was written anew.

    Returns:
        The files that are there, in the order of a report.

    Raises:
        ConfigError: if a plot or a format is unknown.
        StoreError: if one cannot be written.
    """
    endings = [*dict.fromkeys(part.strip() for part in format.split(","))]
    for ending in endings:
        check_choice("format", ending, FORMATS)
    names, found = PLOTS.select_all(plots), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for entry in in_order():
            if entry.name not in names:
                continue
            stamp = stamp_of(entry, records, paper, DPI)
            paths = [folder / f"{entry.name}.{ending}" for ending in endings]
            new = not all(is_stamped(path, stamp) for path in paths)
            if new:
                with on_paper(paper):
                    files = _files(entry, records, warn, endings, DPI, stamp)
                for name, data in files.items():
                    write_file(folder / name, data)
                paths = [folder / name for name in files]
            for path in paths:
                told(path, new)
            found += paths
    except OSError as error:
        raise StoreError(f"{folder}: must take plots, got {error}") from error
    return found
