"""Maps by head: what schemes add to logits, in a sequence and on a grid."""

import math
import textwrap
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from posenc_compare.records.record import Record
from posenc_compare.show.frame import usable
from posenc_compare.show.plots import frames
from posenc_compare.show.plots.frames import Array
from posenc_compare.show.plots.panels import SMALL, add_bar, draw_heat, note_seed
from posenc_compare.show.plots.paper import PAGE, columns_of, paper_width
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import FAINT, MIDDLE, looks, new_figure

TRAINED = "trained_"  # how names of arrays of trained networks begin
HEADS = (4, 2, 1)  # of a scheme: the most that need no more than `ROWS`
ROWS = 7  # of maps
FEWEST = 4  # maps side by side, or their room
SIDE = 0.85  # inches of a map at least, with its share of what stands beside
BESIDE, ABOVE = 1.25, 0.25  # inches beside all maps, and above each
LETTERS = 11  # of a line above a map
FLAT = 0.03  # of the colours, the range of a map that shows nothing


class Kind(NamedTuple):
    """How arrays of one name are drawn: `prepare` takes `(head, row, column)`."""

    unit: str
    sides: tuple[str, str]
    ends: tuple[str, float, float]
    prepare: Callable[[Array], Array] = lambda maps: maps
    ground: str = FAINT
    extend: str = "neither"


def below_largest(maps: Array) -> Array:
    """Return logits `(head, query, key)` minus the largest of their query.

    NaN where a query may not look, and for later keys. A softmax takes no notice of
    what is added to all logits of a query.
    """
    later = np.triu(np.ones(maps.shape[-2:], bool), k=1)
    past = np.where(later, np.nan, maps)
    return past - np.fmax.reduce(past, axis=-1, keepdims=True)


BIAS = Kind(
    "logits below the\nlargest of the query",
    ("query", "key"),
    ("rocket", -10.0, 0.0),
    prepare=below_largest,
    ground="white",
    extend="min",
)
GRID_BIAS = Kind(
    "logits below the\nlargest of the head",
    ("row", "column"),
    ("rocket", -5.0, 0.0),
    prepare=lambda maps: maps - np.fmax.reduce(maps, axis=(-2, -1), keepdims=True),
    extend="min",
)
COSINE = Kind("cosine", ("position", "position"), ("vlag", -1.0, 1.0))
SEQUENCE = {"bias_map": BIAS, "trained_bias": BIAS, "trained_similarity": COSINE}
GRID = {
    "grid_bias": GRID_BIAS,
    "grid_similarity": COSINE._replace(sides=("row", "column")),
}


@register_plot(
    "bias_maps",
    order=60,
    caption="What a scheme adds to the logit of every query and key up to it, below "
    "the largest of the query and on one scale for all: pale keys are favoured, dark "
    "ones are hardly seen. Of trained networks, the first layer, and the cosine of "
    "the codes of two positions.",
)
def draw_bias_maps(records: list[Record]) -> Figure | None:
    """Draw the bias by query and key, with a panel for each head, or for some."""
    drawn = draw_maps(records, SEQUENCE)
    return drawn and drawn[0]


@register_plot(
    "grid_maps",
    order=70,
    caption="How the middle cell of a grid, framed, sees every cell, before any "
    "training: what is added to the logit, below the largest of the head, or the "
    "cosine of both codes; grey where it may not look. Of three axes, the plane in "
    "the middle of the first.",
)
def draw_grid_maps(records: list[Record]) -> Figure | None:
    """Draw the bias of each cell, or the cosine of its code with the middle's."""
    drawn = draw_maps(records, GRID)
    if drawn is None:
        return None
    figure, panels = drawn
    for axes in panels:
        columns, rows = (int(max(ends)) for ends in (axes.get_xlim(), axes.get_ylim()))
        middle = columns // 2, rows // 2
        frame = Rectangle(middle, 1, 1, fill=False, color=MIDDLE, linewidth=0.8)
        axes.add_patch(frame).set_clip_on(False)
    return figure


def draw_maps(
    records: list[Record], kinds: Mapping[str, Kind]
) -> tuple[Figure, list[Axes]] | None:
    """Draw arrays of the first seed by name, on the axes that are returned.

    Heads that are all equal are drawn once, and so are schemes. Of many heads or
    schemes, some heads are drawn, evenly spaced.
    """
    across = columns_of(SIDE, 8)
    flat: list[str] = []
    found = {name: _cells(records, name, kinds[name], across, flat) for name in kinds}
    found = {name: cells for name, cells in found.items() if cells}
    if not found:
        return None
    last = max(max(cells) for cells in found.values())
    across = min(across, max(last + 1, FEWEST))
    down = [1 + max(cells) // across for cells in found.values()]
    high = (paper_width(PAGE) - BESIDE) / across + ABOVE
    heights = [high * rows + 0.4 for rows in down]
    figure = new_figure(sum(heights))
    parts = figure.subfigures(len(down), 1, height_ratios=heights, squeeze=False).flat
    panels: list[Axes] = []
    for part, (name, cells), rows in zip(parts, found.items(), down, strict=True):
        kind, grid = kinds[name], part.subplots(rows, across, squeeze=False)
        for i, axes in enumerate(grid.flat):
            axes.set_visible(i in cells)
        for i, (title, values) in cells.items():
            axes, left, below = grid.flat[i], i % across == 0, i // across == rows - 1
            draw_heat(axes, values, kind.ends, ticks=2)
            axes.set_facecolor(kind.ground)
            room = "\n".join(" " * (title.count("\n") + 1))  # the text is wider
            axes.set_title(room, fontsize=SMALL, pad=2)
            place = {"transform": axes.transAxes, "va": "bottom", "fontsize": SMALL}
            axes.text(0, 1.03, title, **place).set_in_layout(False)
            axes.tick_params(labelleft=left, labelbottom=below)
            axes.set_ylabel(kind.sides[0] if left else "")
            axes.set_xlabel(kind.sides[1] if below else "")
            panels.append(axes)
        place = {"ax": grid, "shrink": min(1, 3 / rows), "aspect": 25}
        add_bar(part, panels[-1], kind.unit, kind.extend, **place)
    chosen = [one for one in records if one.arrays.keys() & found.keys()]
    trained = sorted({name.startswith(TRAINED) for name in found})
    when = " and ".join("after" if one else "before" for one in trained)
    names = [*dict.fromkeys(flat)]
    less = f"; nearly flat: {frames.joined(names)}" if names else ""
    note_seed(figure, chosen, f"{when} training", less)
    return figure, panels


def _cells(
    records: list[Record], name: str, kind: Kind, across: int, flat: list[str]
) -> dict[int, tuple[str, Array]]:
    """Return titles and maps by their places in rows of so many; each once.

    Schemes without a map that shows anything are put in `flat` instead.
    """
    measure = "inside" if name.startswith(TRAINED) else "portrait"
    chosen, styles = usable(records, measure), looks(records)
    numbers = frames.arrays_of(chosen, "bias_heads", styles)
    arrays = {
        label: kind.prepare(seeds[0])
        for label, seeds in frames.arrays_of(chosen, name, styles).items()
    }
    _, low, high = kind.ends
    for label in [*arrays]:
        values = np.clip(arrays[label][np.isfinite(arrays[label])], low, high)
        if not values.size or np.ptp(values) < FLAT * (high - low):
            flat.append(styles[label].text)
            del arrays[label]
    groups = frames.equal_groups(arrays)
    most = max((len(maps) for maps in arrays.values()), default=1)
    slots = [min(heads, most, across) for heads in HEADS]
    fits = (n for n in slots if math.ceil(len(groups) / (across // n)) <= ROWS)
    slot = next(fits, 1)
    cells = {}
    for i, group in enumerate(groups):
        maps = arrays[group[0]]
        heads = numbers.get(group[0], [np.arange(len(maps))])[0]
        kept = np.linspace(0, len(maps) - 1, min(slot, len(maps))).round().astype(int)
        words = f", head {', '.join(f'{heads[k]:.0f}' for k in kept)}"
        if all(np.array_equal(maps[0], other, equal_nan=True) for other in maps):
            kept, words = kept[:1], ", all heads" if len(maps) > 1 else ""
        name = frames.joined([styles[label].text for label in group])
        title = textwrap.fill(name + words, LETTERS * slot)
        first = i // (across // slot) * across + i % (across // slot) * slot
        cells |= {first + j: (title * (j == 0), maps[k]) for j, k in enumerate(kept)}
    return cells
