"""Heat maps by head: small panels, side by side as many as the paper is wide.

Kinds of arrays that state the ends of their colours share one scale, and one bar.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from numpy.typing import NDArray

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.alike import groups_alike, joined
from posenc_compare.analysis.show.plots.frames import arrays_of, usable
from posenc_compare.analysis.show.plots.heat import draw_heat, scale_bar
from posenc_compare.analysis.show.plots.paper import across, paper_width, wrapped
from posenc_compare.analysis.show.plots.said import say_seed
from posenc_compare.analysis.show.plots.style import (
    FAINT,
    MIDDLE,
    PAGE,
    looks,
    new_figure,
)

HEADS = (4, 2, 1)  # of a scheme: the most that let the figure fit a page
HIGHEST = 8.7  # inches of all maps; with its setting the figure fits a page
SMALL, WIDE = 0.8, 1.65  # inches that a map needs, and one with a scale of its own
MARGIN, BAR, GAP = 0.4, 0.55, 0.06  # inches: labels, a bar of colours, between maps
THIN = 0.06  # of a map, the bar itself
TITLE = 0.13  # inches of a line of a title
TICKS = 3  # from the first to the last, about
WORD = 6.0  # points of titles

BLANK = "white"
CORNER: dict[str, Any] = {
    "ha": "right",
    "va": "top",
    "fontsize": WORD - 0.5,
    "color": MIDDLE,
}

Maps = NDArray[np.float64]
Found = list[tuple[tuple[str, str], tuple[Maps, list[str]]]]
"""Maps and what each is of, by schemes and the name of the array."""


class Kind(NamedTuple):
    """How arrays of one name are drawn.

    Attributes:
        unit: for the colour bar.
        sides: what rows and columns are.
        ends: colour map and the values at its ends, if not from the values.
        prepare: what is drawn of an array, `(head, row, column)`.
        ground: colour where nothing is defined.
        beyond: the ends that values may lie beyond, as `colorbar` names them.
    """

    unit: str
    sides: tuple[str, str]
    ends: tuple[str, float, float] | None = None
    prepare: Callable[[Maps], Maps] = lambda maps: maps
    ground: str = FAINT
    beyond: str = "neither"


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


BIAS = Kind(
    "logits below the largest of the query",
    ("query", "key"),
    ("rocket", -10.0, 0.0),
    below_largest,
    BLANK,
    "min",
)


class Entry(NamedTuple):
    """What is drawn of one scheme, or of schemes whose maps are equal.

    Attributes:
        scheme: its name, or all names, in lines as wide as its maps.
        kind: name of the array.
        heads: what each map is of; empty where there is but one.
        maps: `(row, column)` of each.
    """

    scheme: str
    kind: str
    heads: list[str]
    maps: list[Maps]


def draw_head_maps(
    records: list[Record],
    kinds: dict[str, Kind],
    *,
    measure: str = "portrait",
    when: str = "before training",
) -> tuple[Figure, list[Axes]] | None:
    """Draw arrays `(head, row, column)` of a measure; None if there are none.

    Every head has a scale of its own, unless the kind of array has one. Heads that are
    all alike are drawn once, and so are schemes.

    Args:
        records: of all schemes.
        kinds: of the arrays to draw, by name.
        measure: that has the arrays.
        when: in the training of a network they are from.

    Returns:
        The figure, and the axes that show a map.
    """
    found = _found(usable(records, measure), kinds)
    if not found:
        return None
    shared = all(kind.ends for kind in kinds.values())
    columns = across(SMALL, 8) if shared else across(WIDE, 4)
    rows, heights = _fitted(found, columns, shared)
    figure = new_figure(PAGE, sum(heights) + MARGIN)
    figure.set_layout_engine("compressed")  # the maps are square
    widths = [*[1.0] * columns, THIN]
    grid = figure.add_gridspec(
        len(rows), columns + 1, height_ratios=heights, width_ratios=widths
    )
    drawn: dict[str, list[Axes]] = {}
    for y, row in enumerate(rows):
        name = row[0].kind
        panels = _draw_row(figure, grid, y, row, kinds[name])
        below = all(other[0].kind != name for other in rows[y + 1 :])
        for axes in panels:
            _sides(axes, kinds[name].sides, left=axes is panels[0], below=below)
        drawn.setdefault(name, []).extend(panels)
    for name, panels in drawn.items():
        if kinds[name].ends:
            of = [y for y, row in enumerate(rows) if row[0].kind == name]
            bar = figure.add_subplot(grid[of[0] : of[-1] + 1, -1])
            unit = wrapped(kinds[name].unit, sum(heights[y] for y in of) - GAP)
            scale_bar(panels[0], bar, unit, kinds[name].beyond)
    say_seed(figure, usable(records, measure), when)
    return figure, [axes for panels in drawn.values() for axes in panels]


def _found(records: list[Record], kinds: dict[str, Kind]) -> Found:
    """Return maps and numbers of heads by schemes and kind; equal schemes are one."""
    styles = looks(records)
    numbers = {
        look.text: seeds[0] for look, seeds in arrays_of(records, "bias_heads", styles)
    }
    found = []
    for name, kind in kinds.items():
        maps = {
            look.text: kind.prepare(seeds[0])
            for look, seeds in arrays_of(records, name, styles)
        }
        for group in groups_alike([*maps], [*maps.values()]):
            names = numbers.get(group[0], np.arange(len(maps[group[0]])))
            heads = [f"head {names[head]:.0f}" for head in range(len(maps[group[0]]))]
            found.append(((joined(group), name), (maps[group[0]], heads)))
    return found


def _kept(
    scheme: str, kind: str, maps: Maps, heads: list[str], most: int, room: float
) -> Entry:
    """Return the heads to draw, evenly spaced over all, each with some inches."""
    if all(np.array_equal(maps[0], other, equal_nan=True) for other in maps):
        maps, heads = maps[:1], ["all heads" if len(maps) > 1 else ""]
    count = min(most, len(maps))
    kept = [round(i) for i in np.linspace(0, len(maps) - 1, count)]
    name = wrapped(scheme, count * room - GAP, WORD)
    return Entry(name, kind, [heads[i] for i in kept], [maps[i] for i in kept])


def _rows(entries: Iterable[Entry], columns: int) -> list[list[Entry]]:
    """Share out schemes over rows that hold so many maps; a kind begins a row."""
    rows: list[list[Entry]] = []
    for entry in entries:
        held = sum(len(one.maps) for one in rows[-1]) if rows else 0
        same = rows and rows[-1][0].kind == entry.kind
        if same and held + len(entry.maps) <= columns:
            rows[-1].append(entry)
        else:
            rows.append([entry])
    return rows


def _fitted(
    found: Found, columns: int, shared: bool
) -> tuple[list[list[Entry]], list[float]]:
    """Return the rows of maps and their inches, with as many heads as fit a page."""
    room = (paper_width(PAGE) - MARGIN - BAR * shared) / columns
    side = room - (GAP if shared else BAR)
    rows: list[list[Entry]] = []
    heights: list[float] = []
    for most in (count for count in HEADS if count <= columns):
        entries = [_kept(*names, *of, most, room) for names, of in found]
        rows = _rows(entries, columns)
        heights = [
            side * max(_shape(map_) for entry in row for map_ in entry.maps)
            + TITLE * (2 + max(entry.scheme.count("\n") for entry in row))
            for row in rows
        ]
        if sum(heights) + MARGIN <= HIGHEST:
            break
    return rows, heights


def _shape(map_: Maps) -> float:
    """Return the height of a map, in widths."""
    rows, columns = map_.shape
    return min(2.0, max(0.3, rows / columns))


def _draw_row(
    figure: Figure, grid: GridSpec, y: int, row: list[Entry], kind: Kind
) -> list[Axes]:
    """Draw the maps of a row, the name of a scheme above its first."""
    panels: list[Axes] = []
    for entry in row:
        for i, (head, values) in enumerate(zip(entry.heads, entry.maps, strict=True)):
            axes = figure.add_subplot(grid[y, len(panels)])
            _draw(axes, values, kind)
            title = entry.scheme if i == 0 else ""
            if kind.ground == BLANK:  # its corner has room for the head
                axes.text(0.99, 0.98, head, transform=axes.transAxes, **CORNER)
            elif head:
                title = f"{title}\n{head}" if title else head
            axes.set_title(title, loc="left", fontsize=WORD)
            panels.append(axes)
    return panels


def _draw(axes: Axes, values: Maps, kind: Kind) -> None:
    down, over = (range(0, side, max(1, side // TICKS)) for side in values.shape)
    draw_heat(
        axes,
        values,
        unit=kind.unit,
        ticks=(down, over),
        ends=kind.ends,
        square=True,
        bar=kind.ends is None,
        ground=kind.ground,
    )


def _sides(axes: Axes, sides: tuple[str, str], *, left: bool, below: bool) -> None:
    """Name the sides of a map at the left and below; maps beside it have the same."""
    axes.set_ylabel(sides[0] if left else "")
    axes.set_xlabel(sides[1] if below else "")
    axes.tick_params(labelleft=left, labelbottom=below, labelsize=WORD - 0.5)
