"""Codes: the vector that each absolute scheme adds at each position."""

import math

from matplotlib.figure import Figure

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import arrays_of, usable
from posenc_compare.analysis.show.plots.heat import draw_heat
from posenc_compare.analysis.show.plots.paper import row_height
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_seed
from posenc_compare.analysis.show.plots.style import COLUMN, PAGE, looks, new_figure


@register_plot(
    "codes",
    order=40,
    caption="The vector that each absolute scheme adds at each position; grey "
    "where it defines none.",
)
def draw_codes(records: list[Record]) -> Figure | None:
    """Draw 128 positions by 512 channels for every scheme that adds a vector."""
    return draw_code_maps(records, "code", height=1.25, ticks=(32, 64))


def draw_code_maps(
    records: list[Record],
    array: str,
    *,
    height: float,
    ticks: tuple[int, int],
    cells: bool = False,
) -> Figure | None:
    """Draw position by channel, one map per scheme, of its first seed.

    Every scheme has its own scale. Positions that it does not define are grey.

    Args:
        records: of all schemes.
        array: name of the array, `(position, channel)`.
        height: of one map, in inches.
        ticks: positions, and channels, from one tick to the next.
        cells: set every cell apart.
    """
    styles = looks(records)
    found = list(arrays_of(usable(records, "portrait"), array, styles))
    if not found:
        return None
    columns = min(2, len(found))
    rows = math.ceil(len(found) / columns)
    height = row_height(height, rows)
    figure = new_figure(PAGE if columns > 1 else COLUMN, rows * height + 0.2)
    apart = 1 if figure.get_figwidth() / columns >= COLUMN else 4
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(found) :]:
        axes.remove()
    positions = max(len(seeds[0]) for _, seeds in found)
    for i, (axes, (look, seeds)) in enumerate(zip(grid.flat, found, strict=False)):
        down = range(0, positions, ticks[0])
        places = down, range(0, seeds[0].shape[1], apart * ticks[1])
        last = i % columns == columns - 1 or i == len(found) - 1
        unit = "added value" if last else ""
        draw_heat(axes, seeds[0], unit=unit, ticks=places, cells=cells and apart == 1)
        axes.set_ylim(positions, 0)
        axes.set_title(look.text)
        if i % columns == 0:
            axes.set_ylabel("position")
        if i + columns >= len(found):
            axes.set_xlabel("channel")
    say_seed(figure, usable(records, "portrait"), "before training")
    return figure
