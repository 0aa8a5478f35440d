"""The code of every position as a figure."""

import math

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from posenc_compare.analysis.show.plots.heat import draw_heat
from posenc_compare.analysis.show.plots.style import (
    COLUMN,
    PAGE,
    in_style,
    new_figure,
    safe,
)

TICKS = 8  # at the most along a side
FINE = 64  # channels, or positions, whose cells are set apart
LOW, HIGH = 0.8, 7.0  # inches; heights of a map


@in_style
def draw_code(label: str, of: str, values: NDArray[np.float64]) -> Figure:
    """Draw codes as a heat map with the first row at the top.

    Args:
        label: of the scheme.
        of: what the rows are: position or distance.
        values: `(position, channel)`.
    """
    rows, columns = values.shape
    fine = max(rows, columns) <= FINE
    width = COLUMN if columns <= FINE else PAGE
    height = min(max(LOW, width * 0.8 * rows / columns), HIGH)
    figure = new_figure(width, height + 0.5)
    axes = figure.subplots()
    ticks = range(0, rows, _apart(rows)), range(0, columns, _apart(columns))
    draw_heat(axes, values, unit="value", ticks=ticks, cells=fine)
    axes.set(title=safe(label), xlabel="channel", ylabel=of)
    return figure


def _apart(count: int) -> int:
    """Return the power of two between ticks, of which there are few."""
    return 2 ** max(0, math.ceil(math.log2(count / TICKS)))
