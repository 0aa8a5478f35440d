"""Heat maps and their colour bars."""

from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from posenc_compare.show.plots.frames import Array

SMALL = 6.5  # points of what is written beside maps


def draw_heat(
    axes: Axes,
    values: Array,
    ends: tuple[Any, float, float],
    *,
    square: bool = True,
    ticks: int = 4,
    **given: Any,
) -> None:
    """Draw a matrix, its first row at the top; NaN shows the ground."""
    cmap, low, high = ends
    rows, columns = (max(1, round(side / ticks)) for side in values.shape)
    labels = {"yticklabels": rows, "xticklabels": columns, **given}
    colours = {"cmap": cmap, "vmin": low, "vmax": high}
    shape = {"square": square, "rasterized": True, "cbar": False}
    sns.heatmap(values, ax=axes, **shape, **colours, **labels)
    axes.tick_params(labelrotation=0, labelsize=SMALL)
    axes.grid(visible=False)


def add_bar(
    figure: FigureBase, axes: Axes, label: str, extend: str = "neither", **place: Any
) -> None:
    """Draw the colour bar of maps that have one scale."""
    bar = figure.colorbar(axes.collections[0], extend=extend, **place)
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(labelsize=SMALL)
    bar.set_label(label, fontsize=SMALL)
