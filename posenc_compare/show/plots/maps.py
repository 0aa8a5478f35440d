"""Maps by head: what schemes add to logits, in a sequence and on a grid."""

import math
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from posenc_compare.records.record import Record
from posenc_compare.show.plots.frames import (
    Array,
    arrays_of,
    equal_groups,
    joined,
    usable,
)
from posenc_compare.show.plots.heat import add_bar, draw_heat
from posenc_compare.show.plots.panels import HIGH, note_seed
from posenc_compare.show.plots.paper import PAGE, columns_of, paper_width
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import FAINT, MIDDLE, looks, new_figure

HEADS = (4, 2, 1)  # of a scheme: the most that let the figure fit a page
SIDE, MARGIN = 0.85, 1.5  # inches: of a map at least; of labels and the colour bar
TITLE = 0.13  # inches of a line of a title
ABOVE: dict[str, Any] = {
    "xycoords": "axes fraction",
    "textcoords": "offset points",
    "fontsize": 6,
}
BAR = 4  # rows of maps that a colour bar stands beside


class Kind(NamedTuple):
    """How arrays of one name are drawn.

    Attributes:
        measure: that has the arrays.
        unit: for the colour bar.
        sides: what rows and columns are.
        ends: colour map and the values at its ends.
        note: behind the name of a scheme, where arrays are of several measures.
        prepare: what is drawn of an array, `(head, row, column)`.
        ground: colour where nothing is defined.
        extend: the ends that values may lie beyond, as `colorbar` names them.
    """

    measure: str
    unit: str
    sides: tuple[str, str]
    ends: tuple[str, float, float]
    note: str = ""
    prepare: Callable[[Array], Array] = lambda maps: maps
    ground: str = FAINT
    extend: str = "neither"


def below_largest(maps: Array) -> Array:
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


def below_head(maps: Array) -> Array:
    """Return logits `(head, row, column)` minus the largest of their head."""
    return maps - np.fmax.reduce(maps, axis=(-2, -1), keepdims=True)


BIAS = Kind(
    "portrait",
    "logits below the largest of the query",
    ("query", "key"),
    ("rocket", -10.0, 0.0),
    prepare=below_largest,
    ground="white",
    extend="min",
)
COSINE = Kind("portrait", "cosine", ("row", "column"), ("vlag", -1.0, 1.0))
SEQUENCE = {
    "bias_map": BIAS,
    "trained_bias": BIAS._replace(measure="inside", note=", trained"),
    "trained_similarity": COSINE._replace(
        measure="inside", sides=("position", "position"), note=", trained"
    ),
}
GRID = {
    "grid_bias": Kind(
        "portrait",
        "logits below the largest",
        ("row", "column"),
        ("rocket", -5.0, 0.0),
        prepare=below_head,
        extend="min",
    ),
    "grid_similarity": COSINE,
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
    """Draw query by key, a panel for each head; of many heads or schemes, some."""
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


class Scheme(NamedTuple):
    """The maps of one scheme, or of schemes whose maps are equal.

    Attributes:
        name: of all of them.
        heads: number of each; `all` for one that stands for all.
        maps: `(row, column)` of each head.
    """

    name: str
    heads: list[str]
    maps: Array


class Layout:
    """Where maps stand, with some heads of each scheme: kinds below one another.

    Args:
        found: schemes by kind.
        heads: of a scheme, at most.
        most: maps side by side, at most.

    Attributes:
        slots: maps of a scheme, by kind.
        per_row: schemes side by side, by kind.
        rows: of maps, by kind.
        columns: maps side by side.
        side: inches of a map, about.
        high: inches of a row.
    """

    def __init__(
        self, found: Mapping[str, list[Scheme]], heads: int, most: int
    ) -> None:
        self.slots = {
            kind: min(heads, max(len(one.heads) for one in schemes))
            for kind, schemes in found.items()
        }
        self.per_row = {kind: most // slots for kind, slots in self.slots.items()}
        self.rows = {k: math.ceil(len(found[k]) / self.per_row[k]) for k in found}
        wide = [min(len(found[k]), self.per_row[k]) * self.slots[k] for k in found]
        self.columns = max(min(4, most), *wide)
        self.side = (paper_width(PAGE) - MARGIN) / self.columns
        every = [(one, kind) for kind, schemes in found.items() for one in schemes]
        lines = [self.title(one, kind).count("\n") + 1 for one, kind in every]
        shape = max(np.divide(*one.maps.shape[1:]) for one, _ in every)
        self.high = self.side * shape + TITLE * max(lines)

    def heads(self, scheme: Scheme, kind: str) -> list[int]:
        """Return the places of the heads that are drawn, evenly spaced."""
        count = min(self.slots[kind], len(scheme.heads))
        return np.linspace(0, len(scheme.heads) - 1, count).round().astype(int).tolist()

    def title(self, scheme: Scheme, kind: str) -> str:
        """Return the name of a scheme, and heads, in lines as wide as its maps."""
        heads = ", ".join(scheme.heads[i] for i in self.heads(scheme, kind))
        words = {"": "", "all": ", all heads"}.get(
            heads, f", head\N{NO-BREAK SPACE}{heads}"
        )
        width = int(21 * self.side) * self.slots[kind]
        return textwrap.fill(scheme.name + words, width)


def draw_maps(
    records: list[Record], kinds: Mapping[str, Kind]
) -> tuple[Figure, list[Axes]] | None:
    """Draw arrays `(head, row, column)` of the first seed; None if there are none.

    Heads that are all equal are drawn once, and so are schemes. Of many heads or
    schemes, some heads are drawn, evenly spaced.

    Args:
        records: of all schemes.
        kinds: of the arrays to draw, by name.

    Returns:
        The figure, and the axes that show a map.
    """
    found = {name: _schemes(records, name, kind) for name, kind in kinds.items()}
    found = {name: schemes for name, schemes in found.items() if schemes}
    if not found:
        return None
    measures = {kinds[name].measure for name in found}
    if len(measures) > 1:
        for name, schemes in found.items():
            note = kinds[name].note
            found[name] = [one._replace(name=one.name + note) for one in schemes]
    most = columns_of(SIDE, 8)
    layouts = [Layout(found, min(heads, most), most) for heads in HEADS]
    fits = (one for one in layouts if one.high * sum(one.rows.values()) <= HIGH)
    layout = next(fits, layouts[-1])
    rows = sum(layout.rows.values())
    figure = new_figure(PAGE, layout.high * rows + 0.35 * len(found), "compressed")
    grid = figure.add_gridspec(
        rows, layout.columns + 1, width_ratios=[*[1.0] * layout.columns, 0.1]
    )
    panels: list[Axes] = []
    top = 0
    for name, schemes in found.items():
        kind, down = kinds[name], layout.rows[name]
        for i, scheme in enumerate(schemes):
            y, x = divmod(i, layout.per_row[name])
            for j, head in enumerate(layout.heads(scheme, name)):
                place = grid[top + y, x * layout.slots[name] + j]
                axes = figure.add_subplot(place, facecolor=kind.ground)
                draw_heat(axes, scheme.maps[head], kind.ends, ticks=3)
                if j == 0:
                    _name(axes, layout.title(scheme, name))
                left, below = x + j == 0, y == down - 1
                axes.tick_params(labelleft=left, labelbottom=below)
                axes.set_ylabel(kind.sides[0] if left else "")
                axes.set_xlabel(kind.sides[1] if below else "")
                panels.append(axes)
        beside = min(BAR, down)
        bar = figure.add_subplot(grid[top : top + beside, -1])
        unit = textwrap.fill(kind.unit, int(12 * beside * layout.high))
        add_bar(figure, panels[-1], unit, kind.extend, cax=bar, extendfrac=0.04)
        top += down
    chosen = [one for one in records if one.arrays.keys() & found.keys()]
    words = {"portrait": "before", "inside": "after"}
    when = " and ".join(words[k] for k in words if k in measures)
    note_seed(figure, chosen, f"{when} training")
    return figure, panels


def _name(axes: Axes, title: str) -> None:
    """Write a title from the left edge on, which may be wider than the map."""
    room = "\n".join(" " * (title.count("\n") + 1))  # that the layout knows of
    axes.set_title(room, fontsize=6, pad=2)
    axes.annotate(title, (0, 1), (0, 2), **ABOVE).set_in_layout(False)


def _schemes(records: list[Record], name: str, kind: Kind) -> list[Scheme]:
    """Return the maps of every scheme; equal schemes are one."""
    chosen, styles = usable(records, kind.measure), looks(records)
    numbers = arrays_of(chosen, "bias_heads", styles)
    arrays = {
        label: kind.prepare(seeds[0])
        for label, seeds in arrays_of(chosen, name, styles).items()
    }
    found = []
    for group in equal_groups(arrays):
        maps = arrays[group[0]]
        heads = numbers.get(group[0], [np.arange(len(maps))])[0]
        words = [f"{heads[i]:.0f}" for i in range(len(maps))]
        if all(np.array_equal(maps[0], other, equal_nan=True) for other in maps):
            maps, words = maps[:1], ["all" if len(maps) > 1 else ""]
        names = joined([styles[label].text for label in group])
        found.append(Scheme(names, words, maps))
    return found
