"""Plots, one file each: functions of records alone, registered with their captions.

Every plot takes the records of a run, with all measures and schemes, and returns a
figure, or None if they hold nothing for it.
"""

import warnings
from pathlib import Path

from posenc_compare.analysis.core.files import write_file
from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.records.load import Warn
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.plot import in_order
from posenc_compare.analysis.show.plots.style import render
from posenc_compare.errors import StoreError
from posenc_compare.registry import PLOTS

DPI = 300


def images(
    records: list[Record],
    warn: Warn = warnings.warn,
    *,
    endings: tuple[str, ...] = ("png", "svg"),
    dpi: int = DPI,
) -> dict[str, bytes]:
    """Return every plot that the records allow, as the bytes of its files.

    Args:
        records: as `analysis.reading` returns them.
        warn: called with a line for every plot that cannot be drawn.
        endings: formats of every plot.
        dpi: resolution of PNG.

    Returns:
        Bytes by file name, in the order of a report.
    """
    found: dict[str, bytes] = {}
    for entry in in_order():
        try:
            figure = PLOTS.get(entry.name)(records)
            if figure is not None:
                files = {f"{entry.name}.{e}": render(figure, e, dpi) for e in endings}
                found.update(files)
        except (Exception, SystemExit) as error:  # odd arrays fail in many ways
            problem = f"{type(error).__name__}: {error}"
            warn(clean(f"plot {entry.name}: not drawn: {problem}", 200))
    return found


def undrawn(folder: Path) -> list[str]:
    """Return the plots of plugins that a folder has no file of."""
    return [
        entry.name
        for entry in in_order()
        if not entry.module.startswith(f"{PLOTS.package}.")
        and not list(folder.glob(f"{entry.name}.*"))
    ]


def draw_all(
    records: list[Record], folder: Path, warn: Warn = warnings.warn
) -> list[Path]:
    """Write every plot that the records allow, as PNG and SVG.

    Args:
        records: as `analysis.reading` returns them.
        folder: where `NAME.png` and `NAME.svg` go; made if it is missing.
        warn: called with a line for every plot that cannot be drawn.

    Returns:
        The files written, in the order of a report.

    Raises:
        StoreError: if one cannot be written.
    """
    files = images(records, warn)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_file(folder / name, data)
    except OSError as error:
        raise StoreError(f"{folder}: must take plots, got {error}") from error
    return [folder / name for name in files]
