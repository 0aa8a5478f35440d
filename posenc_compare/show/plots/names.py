"""Names beside points: each where it lies on no other name, line or point."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from posenc_compare.show.plots.frames import Array
from posenc_compare.show.plots.panels import SMALL
from posenc_compare.show.plots.style import MIDDLE

RADII, TURNS = range(8, 140, 4), 24  # points from a dot to its name, and directions
GAP = 1.0  # points around a name
ORDERS = 60  # in which names are placed; that with the shortest lines is taken
UNPLACED = 1000.0  # points that a name without a place counts as
LINE = {"arrowstyle": "-", "linewidth": 0.4, "color": MIDDLE}


class Spot(NamedTuple):
    """Where the middle of a name may stand, in points from its dot."""

    offset: tuple[float, float]
    box: Bbox  # in dots of the figure
    line: Path

    def clears(self, other: "Spot") -> bool:
        """Return whether no name lies on the other one or on its line."""
        return not (
            self.box.overlaps(other.box)
            or self.line.intersects_bbox(other.box)
            or other.line.intersects_bbox(self.box)
        )


def name_points(
    axes: Axes, names: Mapping[tuple[float, float], str], taken: Sequence[Bbox]
) -> None:
    """Write names beside points in data coordinates, and nothing on what is taken.

    A name without room is left out.
    """
    figure: Any = axes.figure
    figure.draw_without_rendering()  # lays out the axes
    scale = figure.dpi / 72
    dots = axes.transData.transform([*names])
    radius = 2 * scale
    boxes = [Bbox.from_extents(*(dot - radius), *(dot + radius)) for dot in dots]
    boxes += [box.transformed(axes.transData) for box in taken]
    style: Any = {"textcoords": "offset points", "fontsize": SMALL, "arrowprops": LINE}
    style |= {"ha": "center", "va": "center"}
    texts = [axes.annotate(name, at, (0, 0), **style) for at, name in names.items()]
    spots = []
    for text, dot in zip(texts, dots, strict=True):
        text.set_in_layout(False)
        text.get_window_extent()  # puts the text in its place
        size = np.array(Text.get_window_extent(text).size)
        around = _around(dot, size, scale)
        spots.append([spot for spot in around if _is_free(spot, axes.bbox, boxes)])
    random = np.random.default_rng(0)
    orders = (random.permutation(len(spots)).tolist() for _ in range(ORDERS))
    tries = (_placed(spots, order) for order in orders)
    for text, spot in zip(texts, min(tries, key=_cost), strict=True):
        if spot is None:
            text.remove()
            continue
        text.set_position(spot.offset)


def _around(dot: Array, size: Array, scale: float) -> Iterator[Spot]:
    """Yield spots for a name of a size around a dot, the nearest first."""
    for radius, turn in product(RADII, range(TURNS)):
        angle = 2 * math.pi * turn / TURNS
        offset = radius * math.cos(angle), radius * math.sin(angle)
        middle = dot + scale * np.array(offset)
        box = Bbox.from_bounds(*(middle - size / 2), *size).padded(GAP * scale)
        yield Spot(offset, box, Path([dot, middle]))


def _is_free(spot: Spot, frame: Bbox, boxes: Sequence[Bbox]) -> bool:
    inside = frame.count_contains(spot.box.get_points()) == 2
    return inside and spot.box.count_overlaps(boxes) == 0


def _placed(spots: list[list[Spot]], order: Sequence[int]) -> list[Spot | None]:
    """Return the nearest free spot of each name, where those before it leave one."""
    found: list[Spot | None] = [None] * len(spots)
    for i in order:
        others = [one for one in found if one]
        free = (spot for spot in spots[i] if all(map(spot.clears, others)))
        found[i] = next(free, None)
    return found


def _cost(found: Sequence[Spot | None]) -> float:
    return sum(math.hypot(*one.offset) if one else UNPLACED for one in found)
