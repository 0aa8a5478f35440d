"""Draw plots of records; one that fails costs itself alone."""

import warnings
from collections.abc import Container, Sequence
from pathlib import Path

import matplotlib.pyplot as plt

from posenc_compare.errors import StoreError
from posenc_compare.records.load import Warn
from posenc_compare.records.record import Record
from posenc_compare.records.sanitize import clean
from posenc_compare.registry import PLOTS
from posenc_compare.show.frame import numbers_of
from posenc_compare.show.plots.paper import on_paper
from posenc_compare.show.plots.plot import in_order
from posenc_compare.show.plots.style import render
from posenc_compare.validate import check_choice, check_folder, write_file

DPI = 150
FORMATS = ("png", "svg", "pdf")


def images(
    records: list[Record],
    warn: Warn = warnings.warn,
    *,
    endings: Sequence[str] = ("png",),
    dpi: int = DPI,
    names: Container[str] | None = None,
) -> dict[str, bytes]:
    """Return the bytes of every plot that the records allow by the name of its file.

    They are in the order of a report. Warn with a line for each that cannot be drawn.
    """
    found: dict[str, bytes] = {}
    numbers = numbers_of(records).of_networks
    wanted = [one.name for one in in_order() if names is None or one.name in names]
    for name in wanted:
        before = plt.get_fignums()
        try:
            if figure := PLOTS.get(name)(numbers):
                found |= {f"{name}.{e}": render(figure, e, dpi) for e in endings}
        except (Exception, SystemExit) as error:  # odd arrays fail in many ways
            problem = f"{type(error).__name__}: {error}"
            warn(clean(f"plot {name}: not drawn: {problem}", 200))
        finally:  # a plot of a plugin may have opened figures of pyplot
            for number in set(plt.get_fignums()) - set(before):
                plt.close(number)
    return found


def undrawn(folder: Path) -> list[str]:
    """Return the plots of plugins that a folder has no file of."""
    return [
        entry.name
        for entry in in_order()
        if not PLOTS.owns(entry.module) and not list(folder.glob(f"{entry.name}.*"))
    ]


def draw_all(
    records: list[Record],
    folder: Path,
    warn: Warn = warnings.warn,
    plots: str = "all",
    format: str = "png",
    size: str = "",
) -> list[Path]:
    """Write the plots that the records allow; return their files as a report has them.

    Names of plots, or globs, and formats are comma-separated; size is as in `on_paper`.
    """
    endings = [*dict.fromkeys(part.strip() for part in format.split(","))]
    for ending in endings:
        check_choice("format", ending, FORMATS)
    names = PLOTS.select_all(plots)
    check_folder("out", folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with on_paper(size):
            files = images(records, warn, endings=endings, names=names)
        for name, data in files.items():
            write_file(folder / name, data)
    except OSError as error:
        raise StoreError(f"{folder}: must take plots, got {error}") from error
    return [folder / name for name in files]
