"""Place: one's own scheme among others, by their scores at the longest test."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from matplotlib.figure import Figure

from posenc_compare.records.record import Record
from posenc_compare.show.differences import at_the_end
from posenc_compare.show.plots.drawing import DPI
from posenc_compare.show.plots.style import (
    COLOURS,
    MIDDLE,
    in_style,
    new_figure,
    render,
    safe,
)
from posenc_compare.stats.intervals import half_width

ROW = 0.15  # inches of a scheme


class Change(NamedTuple):
    """The score of a scheme minus that of a reference."""

    scheme: str
    change: float
    low: float
    high: float
    own: bool = False


@in_style
def draw_place(changes: Iterable[Change], unit: str) -> Figure:
    """Draw a dot with its interval for every scheme, the lowest at the top.

    Args:
        changes: at least one; one's own scheme is drawn in colour.
        unit: of the changes, for the axis.
    """
    ordered = sorted(changes, key=lambda one: one.change)
    figure = new_figure(ROW * max(len(ordered), 3) + 0.6)
    axes = figure.subplots()
    axes.axvline(0, color=MIDDLE, linewidth=0.7, linestyle=":")
    for place, one in enumerate(ordered):
        colour = COLOURS[3] if one.own else MIDDLE
        axes.plot([one.low, one.high], [place, place], color=colour, linewidth=1.0)
        axes.plot(one.change, place, "o", color=colour)
    names = [f"{i}. {safe(one.scheme)}" for i, one in enumerate(ordered, 1)]
    axes.set_yticks(range(len(ordered)), names)
    axes.set(xlabel=unit, ylim=(len(ordered) - 0.5, -0.5))
    for text, one in zip(axes.get_yticklabels(), ordered, strict=True):
        text.set(
            color=COLOURS[3] if one.own else "black",
            weight="bold" if one.own else "normal",
        )
    return figure


def place_plot(records: Iterable[Record], own: str) -> bytes:
    """Return a PNG of the differences of other schemes from one's own."""
    changes = [Change(own, 0.0, math.nan, math.nan, own=True)]
    x, compared = at_the_end(records, own)
    for label, one in compared.items():
        if len(one.values):
            width = half_width(one.values)
            low, high = one.mean - width, one.mean + width
            changes.append(Change(label, one.mean, low, high))
    unit = f"bits per byte at {x:g}, less those of {safe(own)}"
    return render(draw_place(changes, unit), "png", DPI)
