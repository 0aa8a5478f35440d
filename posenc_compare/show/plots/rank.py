"""Place: one's own scheme among others, by their scores at the longest test."""

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from posenc_compare.records.record import Record
from posenc_compare.show.differences import Difference, at_the_end
from posenc_compare.show.plots import style
from posenc_compare.show.plots.drawing import DPI
from posenc_compare.show.plots.style import MIDDLE, OWN
from posenc_compare.stats.intervals import half_width

ROW = 0.15  # inches of a scheme


@style.in_style()
def draw_rank(own: str, compared: Mapping[str, Difference], unit: str) -> Figure:
    """Draw the scores of schemes less one's own, which is in colour, by their means."""
    known = {own: Difference(np.zeros(1), math.nan)}
    known |= {label: one for label, one in compared.items() if len(one.values)}
    ordered = sorted(sorted(known), key=lambda label: known[label].mean)
    figure = style.new_figure(ROW * max(len(ordered), 3) + 0.6)
    axes = figure.subplots()
    axes.axvline(0, color=MIDDLE, linewidth=0.7, linestyle=":")
    names = [f"{i}. {style.safe(label)}" for i, label in enumerate(ordered, 1)]
    axes.set_yticks(range(len(ordered)), names)
    axes.set(xlabel=unit, ylim=(len(ordered) - 0.5, -0.5))
    for place, label in enumerate(ordered):
        colour = OWN[0] if label == own else MIDDLE
        mean, width = known[label].mean, half_width(known[label].values)
        axes.errorbar(mean, place, xerr=width, fmt="o", color=colour)
    text = axes.get_yticklabels()[ordered.index(own)]
    text.set(color=OWN[0], weight="bold")
    return figure


def rank_plot(records: list[Record], own: str, format: str = "png") -> bytes:
    """Return an image of the differences of other schemes from one's own."""
    x, compared = at_the_end(records, own)
    unit = f"bits per byte at {x:g}, minus those of {style.safe(own)}"
    return style.render(draw_rank(own, compared, unit), format, DPI)
