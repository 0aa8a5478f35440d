"""Bias maps: what a scheme adds to the logit of every query and key."""

from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from posenc_compare.analysis.plots.records import Record, arrays_of, usable
from posenc_compare.analysis.plots.style import (
    FAINT,
    PAGE,
    in_style,
    looks,
    new_figure,
    palette_for,
)

HEADS = 4


@in_style
def draw_bias_maps(records: list[Record]) -> Figure | None:
    """Draw query by key, a row per scheme and at most four of its heads.

    Every head has its own scale, since slopes differ by powers of two. Where a query
    may not look is grey.
    """
    styles = looks(records)
    chosen = usable(records, "portrait")
    maps = dict(arrays_of(chosen, "bias_map", styles))
    heads = dict(arrays_of(chosen, "bias_heads", styles))
    if not maps:
        return None
    columns = min(HEADS, max(len(seeds[0]) for seeds in maps.values()))
    figure = new_figure(PAGE * max(columns, 2) / HEADS, 1.52 * len(maps) + 0.1)
    bands = np.atleast_1d(figure.subfigures(len(maps), 1))
    for i, (band, (label, seeds)) in enumerate(zip(bands, maps.items(), strict=True)):
        band.suptitle(styles[label].text, fontsize=7)
        grid = band.subplots(1, columns, squeeze=False)[0]
        names = heads[label][0] if label in heads else np.arange(len(seeds[0]))
        kept = np.linspace(0, len(seeds[0]) - 1, min(columns, len(seeds[0])))
        for axes in grid[len(kept) :]:
            axes.set_axis_off()
        for j, head in enumerate(kept.round().astype(int)):
            _bias_map(grid[j], seeds[0][head])
            grid[j].set_title(f"head {names[head]:.0f}", fontsize=6.5)
            if j == 0:
                grid[j].set_ylabel("query")
            if i == len(maps) - 1:
                grid[j].set_xlabel("key")
    return figure


def _bias_map(axes: Axes, bias: NDArray[np.float64]) -> None:
    low, high = float(np.nanmin(bias)), float(np.nanmax(bias))
    cmap, low, high = palette_for(low, high)
    axes.set_facecolor(FAINT)
    sns.heatmap(
        bias,
        ax=axes,
        cmap=cmap,
        vmin=low,
        vmax=high,
        cbar=False,
        square=True,
        rasterized=True,
        xticklabels=False,
        yticklabels=False,
    )
    ticks = range(0, len(bias), 16)
    axes.set_xticks([t + 0.5 for t in ticks], [str(t) for t in ticks], rotation=0)
    axes.set_yticks([t + 0.5 for t in ticks], [str(t) for t in ticks], rotation=0)
    bar = axes.figure.colorbar(
        axes.collections[0], ax=axes, fraction=0.05, pad=0.03, aspect=14
    )
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(nbins=4, symmetric=low < 0 < high)
    bar.update_ticks()
    bar.ax.tick_params(length=2, labelsize=6)
    bar.set_label("logits", fontsize=6)
