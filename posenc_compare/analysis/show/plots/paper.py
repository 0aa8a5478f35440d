"""What a user may change of every plot: its width, and settings of matplotlib."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.errors import ConfigError
from posenc_compare.validate import check_choice

COLUMN, PAGE = 3.4, 7.0  # inches: one column of a paper, and both
SIZES = {"column": COLUMN, "page": PAGE}


@dataclass(frozen=True)
class Paper:
    """What a user may change of every plot.

    Attributes:
        width: of figures in inches; each has its own, if not given.
        rc: settings of matplotlib on top of those of this package.
    """

    width: float | None = None
    rc: tuple[tuple[str, Any], ...] = ()


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
    return Paper(SIZES.get(size), tuple(given.items()))


def _rc_of(style: Path) -> dict[Any, Any]:
    """Return the settings of a file.

    Raises:
        OSError: if it cannot be read.
        ValueError: if a line is no setting, or has no such value.
    """
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
