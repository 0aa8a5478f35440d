"""Steps: how far the code of each position is from that of the next.

Bits jump where many of them flip at once, as from 7 to 8 and from 63 to 64; sinusoids
move by steps of one length.
"""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator
from numpy.typing import NDArray

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.alike import groups_alike, joined
from posenc_compare.analysis.show.plots.frames import arrays_of, usable
from posenc_compare.analysis.show.plots.panels import outer_labels
from posenc_compare.analysis.show.plots.paper import across, row_height
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_seed
from posenc_compare.analysis.show.plots.style import (
    COLUMN,
    MIDDLE,
    PAGE,
    looks,
    new_figure,
)

WIDTH = 3.4  # inches of a panel
HEIGHT = 0.95  # inches of a row


@register_plot(
    "steps",
    order=55,
    measure="smoothness",
    caption="Distance of the code of each position from that of the next, in mean "
    "steps. Bits jump where many flip at once; sinusoids move evenly.",
)
def draw_steps(records: list[Record]) -> Figure | None:
    """Draw a panel for every scheme that adds a vector; those alike share one."""
    styles = looks(records)
    found = {}
    for look, seeds in arrays_of(usable(records, "portrait"), "code", styles):
        steps = steps_of(seeds[0])
        if len(steps) and np.isfinite(steps).any():
            found[look.text] = (look, steps)
    if not found:
        return None
    groups = groups_alike([*found], [steps for _, steps in found.values()])
    columns = across(WIDTH, min(2, len(groups)))
    rows = math.ceil(len(groups) / columns)
    height = row_height(HEIGHT, rows)
    figure = new_figure(PAGE if columns > 1 else COLUMN, height * rows + 0.3)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(groups) :]:
        axes.remove()
    for axes, names in zip(grid.flat, groups, strict=False):
        look, steps = found[names[0]]
        _draw(axes, steps, look.colour)
        axes.set_title(joined(names), loc="left")
        axes.set_title(f"largest {np.nanmax(steps):.2f}", loc="right", color=MIDDLE)
    outer_labels(figure.axes, "position", "step / mean")
    say_seed(figure, usable(records, "portrait"), "before training")
    return figure


def steps_of(code: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of each code from the next one, in mean distances.

    Args:
        code: `(position, channel)`.
    """
    steps = np.linalg.norm(np.diff(code, axis=0), axis=1)
    known = steps[np.isfinite(steps)]
    mean = known.mean() if known.size else 0.0
    return steps / mean if mean > 0 else np.full_like(steps, np.nan)


def _draw(axes: Axes, steps: NDArray[np.float64], colour: str) -> None:
    """Draw the step to each position, from that before it."""
    to = np.arange(1, len(steps) + 1)
    axes.vlines(to, 0, steps, color=colour, linewidth=0.9)
    axes.axhline(1, color=MIDDLE, linewidth=0.5, linestyle=(0, (2, 2)), zorder=3)
    powers = [2**i for i in range(3, 12) if 2**i <= len(steps) + 1]
    axes.xaxis.set_major_locator(FixedLocator([0, *powers]))
    axes.set_xlim(0, len(steps) + 1)
    axes.set_ylim(0, None)
