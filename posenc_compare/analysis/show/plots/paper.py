"""What a user may change of every plot: its width, and settings of matplotlib.

Panels side by side, heights of rows and lines of text follow from the width.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl

from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.errors import ConfigError
from posenc_compare.validate import check_choice, read_regular

COLUMN, PAGE = 3.4, 7.0  # inches: one column of a paper, and both
SIZES = {"column": COLUMN, "page": PAGE}
HIGH = 7.9  # inches of all rows of a figure: with its legend it fits a page
LONG = 1 << 20  # bytes of a file of settings
BREAKS = re.compile(r"[^ _,:;=/]*[ _,:;=/]?")  # parts of a text, each ends a line
GLYPH = 0.6  # of the size of letters, the width of one in the mean


@dataclass(frozen=True)
class Paper:
    """What a user may change of every plot.

    Attributes:
        width: of figures in inches; each has its own, if not given.
        rc: settings of matplotlib on top of those of this package.
        style: the file of these settings.
    """

    width: float | None = None
    rc: tuple[tuple[str, Any], ...] = ()
    style: Path | None = field(default=None, repr=False)


OWN = Paper()
PAPER: ContextVar[Paper] = ContextVar("PAPER", default=OWN)


def paper_of(size: str, style: Path | None) -> Paper:
    """Return what is asked for.

    Args:
        size: column or page; empty for the own width of each plot.
        style: a file of matplotlib settings, such as `my.mplstyle`.

    Raises:
        ConfigError: if there is no such size, or the file cannot be used.
    """
    if size:
        check_choice("size", size, tuple(SIZES))
    given: dict[Any, Any] = {}
    if style is not None:
        try:
            given = dict(_rc_of(style))
        except (OSError, ValueError, KeyError) as error:
            problem = clean(str(error), 120)
            raise ConfigError(
                f"style must be a file of matplotlib settings, got {style}: {problem}"
            ) from error
    return Paper(SIZES.get(size), tuple(given.items()), style and style.absolute())


def _rc_of(style: Path) -> dict[Any, Any]:
    """Return the settings of a file.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no regular file or too long, or if a line is no setting,
            or has no such value.
    """
    read_regular(style, LONG)  # which matplotlib would read without end
    said: list[str] = []
    ear = logging.Handler(logging.WARNING)
    ear.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("matplotlib")
    log.addHandler(ear)
    quiet, log.propagate = log.propagate, False
    try:
        found = mpl.rc_params_from_file(
            style, fail_on_error=True, use_default_template=False
        )
    finally:
        log.propagate = quiet
        log.removeHandler(ear)
    if said:
        raise ValueError(said[0].strip().splitlines()[0])
    return found


@contextmanager
def on_paper(paper: Paper) -> Iterator[None]:
    """Draw and render on that paper inside."""
    token = PAPER.set(paper)
    try:
        yield
    finally:
        PAPER.reset(token)


def paper_width(own: float) -> float:
    """Return the inches that a figure is wide: those of the paper, or its own."""
    return PAPER.get().width or own


def across(inches: float, most: int) -> int:
    """Return how many panels stand side by side in a figure as wide as a page.

    Args:
        inches: that a panel needs at least, with its labels.
        most: panels there are, or that are wanted in one row.
    """
    return max(1, min(most, int(paper_width(PAGE) / inches)))


def row_height(own: float, rows: int) -> float:
    """Return the inches of each of several rows: its own, or what fits a page."""
    return min(own, HIGH / rows)


def wrapped(text: str, inches: float, size: float = 7) -> str:
    """Return text in lines that are no wider; it may break behind `_`, `,` or `=`.

    Args:
        text: of one line.
        inches: of room.
        size: of letters, in points.
    """
    most = max(4, int(inches * 72 / (GLYPH * size)))
    lines = [""]
    for part in BREAKS.findall(text):
        if len(lines[-1]) + len(part.rstrip()) > most and lines[-1]:
            lines.append("")
        while len(part.rstrip()) > most:
            lines[-1], part = part[:most], part[most:]
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)
