"""Codes: the vector that each absolute scheme adds at each position."""

import math
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from posenc_compare.analysis.plots.records import arrays_of, usable
from posenc_compare.analysis.plots.style import (
    PAGE,
    in_style,
    looks,
    new_figure,
    palette_for,
)


@in_style
def draw_codes(records: list[dict[str, Any]]) -> Figure | None:
    """Draw 128 positions by 512 channels for every scheme that adds a vector."""
    return draw_heat_maps(records, "code", height=1.25)


def draw_heat_maps(
    records: list[dict[str, Any]], array: str, *, height: float, cells: bool = False
) -> Figure | None:
    """Draw position by channel, one map per scheme, of its first seed.

    Args:
        records: of all schemes.
        array: name of the array, `(position, channel)`.
        height: of one map, in inches.
        cells: draw every cell apart, with a tick at every second position.
    """
    styles = looks(records)
    found = list(arrays_of(usable(records, "portrait"), array, styles))
    if not found:
        return None
    columns = min(2, len(found))
    rows = math.ceil(len(found) / columns)
    figure = new_figure(PAGE * columns / 2, rows * height + 0.2)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(found) :]:
        axes.remove()
    for i, (axes, (label, seeds)) in enumerate(zip(grid.flat, found, strict=False)):
        _heat_map(axes, seeds[0], cells=cells)
        axes.set_title(styles[label].text)
        if i % columns == 0:
            axes.set_ylabel("position")
        if i + columns >= len(found):
            axes.set_xlabel("channel")
    return figure


def _heat_map(axes: Axes, code: NDArray[np.float64], *, cells: bool) -> None:
    positions, channels = code.shape
    cmap, low, high = palette_for(float(np.nanmin(code)), float(np.nanmax(code)))
    sns.heatmap(
        code,
        ax=axes,
        cmap=cmap,
        vmin=low,
        vmax=high,
        cbar=False,
        rasterized=not cells,
        linewidths=0.25 if cells else 0,
        xticklabels=False,
        yticklabels=False,
    )
    shift = 0.5 if cells else 0.0  # the middle of a cell
    across = range(0, channels, 4) if cells else range(0, channels + 1, 128)
    down = range(0, positions, 3) if cells else range(0, positions + 1, 32)
    axes.set_xticks([c + shift for c in across], [str(c) for c in across], rotation=0)
    axes.set_yticks([p + shift for p in down], [str(p) for p in down], rotation=0)
    axes.tick_params(length=2)
    bar = axes.figure.colorbar(
        axes.collections[0], ax=axes, fraction=0.04, pad=0.02, aspect=14
    )
    bar.outline.set_visible(False)
    bar.locator = _three_ticks(low, high)
    bar.update_ticks()
    bar.ax.tick_params(length=2, labelsize=6)
    bar.set_label("added value", fontsize=6)


def _three_ticks(low: float, high: float) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=3, symmetric=low < 0 < high)
