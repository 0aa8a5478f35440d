"""Heat maps by head: a row per scheme and array, at most four heads across."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import arrays_of, usable
from posenc_compare.analysis.show.plots.heat import draw_heat
from posenc_compare.analysis.show.plots.style import PAGE, looks, new_figure

HEADS = 4
TICKS = 3  # from the first to the last, about

Maps = NDArray[np.float64]


class Kind(NamedTuple):
    """How arrays of one name are drawn.

    Attributes:
        unit: for the colour bar.
        ends: colour map and the values at its ends, if not from the values.
        prepare: what is drawn of an array, `(head, row, column)`.
    """

    unit: str
    ends: tuple[str, float, float] | None = None
    prepare: Callable[[Maps], Maps] = lambda maps: maps


def below_largest(maps: Maps) -> Maps:
    """Return logits minus the largest of their query, for keys up to the query.

    A softmax takes no notice of what is added to all logits of a query.

    Args:
        maps: `(head, query, key)`; NaN where a query may not look.

    Returns:
        The same shape; NaN for later keys.
    """
    later = np.triu(np.ones(maps.shape[-2:], bool), k=1)
    past = np.where(later, np.nan, maps)
    return past - np.fmax.reduce(past, axis=-1, keepdims=True)


BIAS = Kind("logits below the largest", ("rocket", -10.0, 0.0), below_largest)


def draw_head_maps(
    records: list[Record],
    kinds: dict[str, Kind],
    sides: tuple[str, str],
    measure: str = "portrait",
) -> tuple[Figure, list[Axes]] | None:
    """Draw arrays `(head, row, column)` of a measure; None if there are none.

    Every head has a scale of its own, unless the kind of array has one. Heads that are
    all alike are drawn once.

    Args:
        records: of all schemes.
        kinds: of the arrays to draw, by name.
        sides: what rows and columns are.
        measure: that has the arrays.

    Returns:
        The figure, and the axes that show a map.
    """
    styles = looks(records)
    chosen = usable(records, measure)
    heads = {
        look.text: seeds[0] for look, seeds in arrays_of(chosen, "bias_heads", styles)
    }
    found = {
        (look.text, name): kind.prepare(seeds[0])
        for name, kind in kinds.items()
        for look, seeds in arrays_of(chosen, name, styles)
    }
    if not found:
        return None
    heights = [_height(maps.shape) for maps in found.values()]
    figure = new_figure(PAGE, sum(heights) + 0.15)
    figure.set_layout_engine("compressed")  # the maps are square
    grid = figure.subplots(len(found), HEADS, squeeze=False, height_ratios=heights)
    drawn = []
    for row, ((scheme, name), maps) in zip(grid, found.items(), strict=True):
        unit, ends, _ = kinds[name]
        names = heads.get(scheme, np.arange(len(maps)))
        kept = _kept(maps)
        for axes in row[len(kept) :]:
            axes.set_axis_off()
        for axes, head in zip(row, kept, strict=False):
            down, across = (
                range(0, side, max(1, side // TICKS)) for side in maps[head].shape
            )
            draw_heat(
                axes,
                maps[head],
                unit=unit if head == kept[-1] else "",
                ticks=(down, across),
                ends=ends,
                square=True,
            )
            axes.set_title(f"head {names[head]:.0f}", loc="left", fontsize=6.5)
            drawn.append(axes)
        first = "all heads" if len(kept) == 1 < len(names) else f"head {names[0]:.0f}"
        row[0].set_title(f"{scheme}\n{first}", loc="left")
        row[0].set_ylabel(sides[0])
    for axes in grid[-1]:
        axes.set_xlabel(sides[1])
    return figure, drawn


def _height(shape: tuple[int, ...]) -> float:
    """Return the inches of a row of maps, with their titles."""
    _, rows, columns = shape
    return 0.4 + 1.05 * min(2.0, max(0.3, rows / columns))


def _kept(maps: NDArray[np.float64]) -> list[int]:
    """Return the heads to draw, evenly spaced over all."""
    if all(np.array_equal(maps[0], other, equal_nan=True) for other in maps):
        return [0]
    count = min(HEADS, len(maps))
    return [round(i) for i in np.linspace(0, len(maps) - 1, count)]
