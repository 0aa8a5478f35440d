"""Clock hands: how far a rotary scheme turns each pair of channels."""

import math
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from numpy.typing import NDArray

from posenc_compare.analysis.plots.records import arrays_of, usable
from posenc_compare.analysis.plots.style import (
    FAINT,
    MIDDLE,
    PAGE,
    add_legend,
    in_style,
    looks,
    new_figure,
)

HANDS = 8  # positions
CLOCKS = 6  # pairs


@in_style
def draw_clock_hands(records: list[dict[str, Any]]) -> Figure | None:
    """Draw hands at positions 0 ... 7, a row per scheme, from fast to slow pairs.

    Later positions have longer hands, so that those of slow pairs do not hide each
    other. Angles run against the clock from the right, as in mathematics.
    """
    styles = looks(records)
    found = list(arrays_of(usable(records, "portrait"), "angles", styles))
    found = [(label, seeds) for label, seeds in found if seeds[0].ndim == 2]
    if not found:
        return None
    figure = new_figure(PAGE, 1.5 * len(found))
    bands = np.atleast_1d(figure.subfigures(len(found), 1))
    colours = sns.color_palette("viridis", HANDS)
    for band, (label, seeds) in zip(bands, found, strict=True):
        angles = seeds[0]
        band.suptitle(styles[label].text, fontsize=7)
        pairs = np.linspace(0, angles.shape[1] - 1, min(CLOCKS, angles.shape[1]))
        grid = band.subplots(1, CLOCKS, squeeze=False)[0]
        for axes in grid:
            axes.set_axis_off()
        for axes, pair in zip(grid, pairs.round().astype(int), strict=False):
            _clock(axes, angles[:HANDS, pair], colours)
            axes.set_title(f"pair {pair}\n{_turn(angles[:, pair])}", fontsize=6)
    handles = [
        Line2D([], [], color=colour, linewidth=1.6, label=str(position))
        for position, colour in enumerate(colours)
    ]
    add_legend(figure, handles, title="position")
    return figure


def _clock(axes: Axes, angles: NDArray[np.float64], colours: Any) -> None:
    axes.add_patch(Circle((0, 0), 1, facecolor="none", edgecolor=FAINT, linewidth=0.8))
    axes.plot([0, 1], [0, 0], color=FAINT, linewidth=0.6)
    length = np.linspace(0.55, 1, len(angles))
    tips = pd.DataFrame(
        {"x": length * np.cos(angles), "y": length * np.sin(angles)}
    ).assign(position=range(len(angles)))
    hands = pd.concat([tips.assign(x=0.0, y=0.0), tips])
    sns.lineplot(
        hands,
        x="x",
        y="y",
        hue="position",
        palette=list(colours)[: len(angles)],
        units="position",
        estimator=None,
        sort=False,
        legend=False,
        linewidth=1.2,
        ax=axes,
    )
    sns.scatterplot(
        tips,
        x="x",
        y="y",
        hue="position",
        palette=list(colours)[: len(angles)],
        s=8,
        linewidth=0,
        legend=False,
        zorder=4,
        ax=axes,
    )
    axes.plot(0, 0, marker="o", markersize=1.8, color=MIDDLE, zorder=5)
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal")


def _turn(angles: NDArray[np.float64]) -> str:
    """Say how many positions a full turn takes."""
    step = abs(angles[1] - angles[0]) if len(angles) > 1 else math.nan
    if not step > 0:
        return "does not turn"
    return f"turn: {2 * math.pi / step:.3g} pos."
