"""Heat maps with a colour bar of their own."""

from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from numpy.typing import NDArray

from posenc_compare.analysis.show.plots.style import FAINT


def draw_heat(
    axes: Axes,
    values: NDArray[np.float64],
    *,
    unit: str,
    ticks: tuple[range, range],
    ends: tuple[str, float, float] | None = None,
    cells: bool = False,
    square: bool = False,
    bar: bool = True,
    ground: str = FAINT,
) -> None:
    """Draw a matrix, its first row at the top; NaN is grey.

    Args:
        axes: where to draw.
        values: `(row, column)`.
        unit: for the colour bar.
        ticks: row and column numbers.
        ends: colour map and the values at its ends, if not from the values.
        cells: set every cell apart; otherwise the map is one image in an SVG.
        square: make cells as high as wide.
        bar: whether it has a colour bar of its own.
        ground: colour of NaN.
    """
    cmap, low, high = ends or palette_for(values)
    axes.set_facecolor(ground)
    sns.heatmap(
        values,
        ax=axes,
        cmap=cmap,
        vmin=low,
        vmax=high,
        cbar=False,
        square=square,
        rasterized=not cells,
        linewidths=0.25 if cells else 0,
        xticklabels=False,
        yticklabels=False,
    )
    for axis, side in zip((axes.yaxis, axes.xaxis), ticks, strict=True):
        middle = [number + 0.5 for number in side]
        axis.set_ticks(middle, [str(number) for number in side], rotation=0)
    if bar:
        _bar(axes, None, unit, fraction=0.05, pad=0.02, aspect=14)


def scale_bar(axes: Axes, place: Axes, unit: str, beyond: str = "neither") -> None:
    """Draw the colour bar of maps that have one scale.

    Args:
        axes: with one of the maps.
        place: where the bar goes.
        unit: of the values.
        beyond: the ends that values may lie beyond: neither, min, max or both.
    """
    _bar(axes, place, unit, extend=beyond, extendfrac=0.03)


def _bar(axes: Axes, place: Axes | None, unit: str, **how: Any) -> None:
    low, high = axes.collections[0].get_clim()
    bar = axes.figure.colorbar(
        axes.collections[0],
        cax=place,
        ax=None if place else axes,
        ticks=[low, (low + high) / 2, high],
        format="{x:.2g}",
        **how,
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2, labelsize=6)
    bar.set_label(unit, fontsize=6)


def palette_for(values: NDArray[np.float64]) -> tuple[str, float, float]:
    """Return colour map and ends; 0 is pale, and in the middle of both signs."""
    known = values[np.isfinite(values)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 0.0)
    if low < 0 < high:
        end = float(max(-low, high))
        return "vlag", -end, end
    if low < 0:
        return "rocket", float(low), 0.0
    return "rocket_r", 0.0, float(high) if high > 0 else 1.0
