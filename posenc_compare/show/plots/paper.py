"""What a user may change of every plot: its width, and settings of matplotlib."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl

from posenc_compare.errors import ConfigError
from posenc_compare.records.sanitize import clean
from posenc_compare.validate import check_choice, read_regular

COLUMN, PAGE = 3.4, 7.0  # inches: one column of a paper, and both
SIZES = {"column": COLUMN, "page": PAGE}
LONG = 1 << 20  # bytes of a file of settings


@dataclass(frozen=True)
class Paper:
    """What a user may change of every plot.

    Attributes:
        size: of figures, column or page; each has its own, if empty.
        rc: settings of matplotlib on top of those of this package.
    """

    size: str = ""
    rc: Mapping[Any, Any] = field(default_factory=dict)


OWN = Paper()
PAPER: ContextVar[Paper] = ContextVar("PAPER", default=OWN)


def paper_of(size: str, style: Path | None) -> Paper:
    """Return the paper with this size and style.

    Args:
        size: column or page; empty for the own width of each plot.
        style: a file of matplotlib settings, such as `my.mplstyle`.

    Raises:
        ConfigError: if there is no such size, or the file cannot be used.
    """
    if size:
        check_choice("size", size, tuple(SIZES))
    if style is None:
        return Paper(size)
    try:
        for line in read_regular(style, LONG).decode().splitlines():
            name, colon, _ = line.partition("#")[0].partition(":")
            if name.strip() and not (colon and name.strip() in mpl.rcParams):
                raise ValueError(f"matplotlib has no setting {name.strip()!r}")
        form = {"fail_on_error": True, "use_default_template": False}
        return Paper(size, mpl.rc_params_from_file(style, **form))
    except (OSError, ValueError, KeyError) as error:
        problem = clean(str(error), 120)
        raise ConfigError(
            f"style must be a file of matplotlib settings, got {style}: {problem}"
        ) from error


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
    return SIZES.get(PAPER.get().size, own)


def columns_of(inches: float, most: int) -> int:
    """Return how many panels stand side by side in a figure as wide as a page.

    Args:
        inches: that a panel needs at least, with its labels.
        most: panels there are, or that are wanted in one row.
    """
    return max(1, min(most, int(paper_width(PAGE) / inches)))
