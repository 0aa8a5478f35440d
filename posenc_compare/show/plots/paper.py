"""How wide figures are: one column of a paper, both, or as each plot has it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from posenc_compare.validate import check_choice

COLUMN, PAGE = 3.4, 7.0  # inches: one column of a paper, and both
SIZES = {"column": COLUMN, "page": PAGE}
SIZE: ContextVar[str] = ContextVar("SIZE", default="")


@contextmanager
def on_paper(size: str) -> Iterator[None]:
    """Draw inside as wide as a column or a page; empty for the width of each plot."""
    if size:
        check_choice("size", size, tuple(SIZES))
    token = SIZE.set(size)
    try:
        yield
    finally:
        SIZE.reset(token)


def paper_width(own: float) -> float:
    """Return the inches that a figure is wide: those of the paper, or its own."""
    return SIZES.get(SIZE.get(), own)


def columns_of(inches: float, most: int) -> int:
    """Return how many panels of so many inches, at most, stand side by side."""
    return max(1, min(most, int(paper_width(PAGE) / inches)))
