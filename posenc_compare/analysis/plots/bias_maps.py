"""Bias maps: what a scheme adds to the logit of every query and key."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from posenc_compare.analysis.plots.heat import draw_heat
from posenc_compare.analysis.plots.records import Record, arrays_of, usable
from posenc_compare.analysis.plots.style import PAGE, in_style, looks, new_figure

HEADS = 4
TICK = 16  # tokens


@in_style
def draw_bias_maps(records: list[Record]) -> Figure | None:
    """Draw query by key, a row per scheme and at most four of its heads.

    Every head has its own scale, since slopes differ by powers of two. Where a query
    may not look is grey. Heads that are all alike are drawn once.
    """
    styles = looks(records)
    chosen = usable(records, "portrait")
    maps = {
        look.text: seeds[0] for look, seeds in arrays_of(chosen, "bias_map", styles)
    }
    heads = {
        look.text: seeds[0] for look, seeds in arrays_of(chosen, "bias_heads", styles)
    }
    if not maps:
        return None
    figure = new_figure(PAGE, 1.45 * len(maps) + 0.15)
    grid = figure.subplots(len(maps), HEADS, squeeze=False)
    for row, (scheme, maps_of_heads) in zip(grid, maps.items(), strict=True):
        names = heads.get(scheme, np.arange(len(maps_of_heads)))
        kept = _kept(maps_of_heads)
        for axes in row[len(kept) :]:
            axes.set_axis_off()
        for axes, head in zip(row, kept, strict=False):
            bias = maps_of_heads[head]
            ticks = range(0, len(bias), TICK)
            unit = "logits" if head == kept[-1] else ""
            draw_heat(axes, bias, unit=unit, ticks=(ticks, ticks), square=True)
            axes.set_title(f"head {names[head]:.0f}", loc="left", fontsize=6.5)
        alike = len(kept) == 1 < len(maps_of_heads)
        first = "all heads" if alike else f"head {names[0]:.0f}"
        row[0].set_title(f"{scheme}\n{first}", loc="left")
        row[0].set_ylabel("query")
    for axes in grid[-1]:
        axes.set_xlabel("key")
    return figure


def _kept(maps: NDArray[np.float64]) -> list[int]:
    """Return the heads to draw, evenly spaced over all."""
    if all(np.array_equal(maps[0], other, equal_nan=True) for other in maps):
        return [0]
    count = min(HEADS, len(maps))
    return [round(i) for i in np.linspace(0, len(maps) - 1, count)]
