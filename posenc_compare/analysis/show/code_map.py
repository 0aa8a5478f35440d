"""The code of every position as a figure."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from posenc_compare.analysis.show.plots.heat import add_bar, draw_heat
from posenc_compare.analysis.show.plots.paper import COLUMN, PAGE
from posenc_compare.analysis.show.plots.style import in_style, new_figure, safe

NARROW = 64  # channels that have room in a column
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
    width = COLUMN if columns <= NARROW else PAGE
    height = min(max(LOW, width * 0.8 * rows / columns), HIGH)
    figure = new_figure(width, height + 0.5)
    axes = figure.subplots()
    largest = float(np.abs(values).max()) or 1.0
    draw_heat(axes, values, ("vlag", -largest, largest), square=False)
    axes.set(title=safe(label), xlabel="channel", ylabel=of)
    add_bar(figure, axes, "value", ax=axes)
    return figure
