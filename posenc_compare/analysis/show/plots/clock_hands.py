"""Clock hands: how far a rotary scheme turns each pair of channels."""

import math

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from numpy.typing import NDArray

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import arrays_of, usable
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.style import (
    FAINT,
    MIDDLE,
    PAGE,
    add_legend,
    looks,
    new_figure,
)

HANDS = 8  # positions
CLOCKS = 6  # pairs
COLOURS = "viridis"


@register_plot(
    "clock_hands",
    order=80,
    caption="How far a rotary scheme turns pairs of channels at the first positions.",
)
def draw_clock_hands(records: list[Record]) -> Figure | None:
    """Draw hands at positions 0 ... 7, a row per scheme, from fast to slow pairs.

    Later positions have longer hands, so that those of slow pairs do not hide each
    other. Angles run against the clock from the right, as in mathematics.
    """
    styles = looks(records)
    found = list(arrays_of(usable(records, "portrait"), "angles", styles))
    found = [(look.text, seeds[0]) for look, seeds in found if seeds[0].ndim == 2]
    if not found:
        return None
    figure = new_figure(PAGE, 1.6 * len(found) - 0.05)
    grid = figure.subplots(len(found), CLOCKS, squeeze=False)
    for row, (scheme, angles) in zip(grid, found, strict=True):
        for axes in row:
            axes.set_axis_off()
        pairs = angles.shape[1]
        kept = np.linspace(0, pairs - 1, min(CLOCKS, pairs)).round().astype(int)
        for axes, pair in zip(row, kept, strict=False):
            _clock(axes, angles[:HANDS, pair])
            title = f"pair {pair}\n{_turn(angles[:, pair])}"
            if pair == 0:
                title = f"{scheme}\n{title}"
            axes.set_title(title, loc="left", fontsize=6.5)
    handles = [
        Line2D([], [], color=colour, linewidth=1.6, label=f"{position}")
        for position, colour in enumerate(sns.color_palette(COLOURS, HANDS))
    ]
    add_legend(figure, handles, title="position")
    return figure


def _clock(axes: Axes, angles: NDArray[np.float64]) -> None:
    axes.add_patch(Circle((0, 0), 1, facecolor="none", edgecolor=FAINT, linewidth=0.8))
    axes.plot([0, 1], [0, 0], color=FAINT, linewidth=0.6)
    length = np.linspace(0.55, 1, len(angles))
    tips = pd.DataFrame(
        {
            "x": length * np.cos(angles),
            "y": length * np.sin(angles),
            "position": range(len(angles)),
        }
    )
    colours = sns.color_palette(COLOURS, HANDS)[: len(angles)]
    same = {"x": "x", "y": "y", "hue": "position", "palette": colours, "ax": axes}
    sns.lineplot(
        pd.concat([tips.assign(x=0.0, y=0.0), tips]),
        units="position",
        estimator=None,
        sort=False,
        legend=False,
        linewidth=1.2,
        **same,
    )
    sns.scatterplot(tips, s=8, linewidth=0, legend=False, zorder=4, **same)
    axes.plot(0, 0, marker="o", markersize=1.8, color=MIDDLE, zorder=5)
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal", anchor="N")


def _turn(angles: NDArray[np.float64]) -> str:
    """Say how many positions a full turn takes."""
    step = abs(angles[1] - angles[0]) if len(angles) > 1 else math.nan
    if not step > 0:
        return "does not turn"
    positions = 2 * math.pi / step
    digits = 1 if positions < 100 else 0
    return f"{positions:,.{digits}f} positions/turn"
