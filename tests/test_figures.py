"""Whether figures of the results of record fit a paper: in a column and on a page.

Texts are those that are drawn: of every one, the box that the renderer gives it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from posenc_compare.records.labels import label_settings
from posenc_compare.records.load import read_folder
from posenc_compare.records.record import Record
from posenc_compare.records.selection import Selection
from posenc_compare.registry import PLOTS
from posenc_compare.show.plots.paper import on_paper
from posenc_compare.show.plots.plot import in_order

RESULTS = Path(__file__).parent.parent / "results"
PAGE = 9.0  # inches of text on a page, at most
# Boxes hold the room of accents and of letters that hang down, which these few dots
# of 100 to the inch are less than: texts in neighbouring lines may touch so far.
TOUCH = 1.5
BETWEEN = 2.0  # dots between texts side by side, at least
FOUR = "nope,sinusoidal,rope,alibi"
EIGHT = f"{FOUR},learned,t5_bias,kerple_log,fire"
WITHOUT = {"inside", "far_keys", "tasks", "grid_maps", "sensitivity"}
WITHOUT |= {"checkpoint", "retrieval", "retrieval_bits"}
QUICK = [one.name for one in in_order() if one.name not in WITHOUT]
ROTARY = "rope,p_rope,hope,xpos,fope,pope,rope_learned,rope_pp,rerope,mix,sink"
# Of all schemes these need a page; what is chosen has room in a column too.
LONG = {"clock_hands", "uniqueness", "extrapolation"}
SHORT = "language/quick"
CASES = [
    *((SHORT, name, "") for name in QUICK if name not in {"similarity", *LONG}),
    *((SHORT, name, "rope") for name in ("extrapolation", "similarity")),
    (SHORT, "bias_maps", "alibi"),
    *(("language/6000", name, "") for name in ("extrapolation", "checkpoint")),
    ("grid/16x16", "grid_maps", ""),
    ("numerics/far_keys", "far_keys", ""),
    ("ablations/rate", "sensitivity", ""),
    ("tasks/six", "tasks", ""),
    ("checkpoints/smollm2-prose", "checkpoint", ""),
]


# A curve for each of all schemes, with their names beside it, takes two columns.
CHOSEN = [
    (SHORT, name, schemes, "column")
    for name in (*sorted(LONG), "similarity")
    for schemes in (EIGHT, ROTARY)
]


@cache
def read(folder: str) -> list[Record]:
    """Return records of two seeds, with which a figure has all its texts."""
    found = read_folder(RESULTS / folder, print)
    seeds = sorted({one.spec.seed for one in found})[:2]
    return [one for one in found if one.spec.seed in seeds]


@cache
def records_of(folder: str, schemes: str) -> tuple[Record, ...]:
    chosen = Selection(schemes).of(read(folder), print)
    return tuple(label_settings(chosen, print))


def drawn(name: str, records: tuple[Record, ...], size: str = "page") -> Figure | None:
    with on_paper(size):
        figure = PLOTS.get(name)(list(records))
    assert figure is None or isinstance(figure, Figure)
    return figure


@contextmanager
def texts_drawn() -> Iterator[list[tuple[str, Bbox]]]:
    """Note every text that is drawn inside, with its box in dots."""
    found: list[tuple[str, Bbox]] = []
    plain = Text.draw

    def draw(self: Text, renderer: Any, *given: Any, **named: Any) -> None:
        plain(self, renderer, *given, **named)
        if self.get_visible() and self.get_text().strip():
            box = Text.get_window_extent(self, renderer)  # without an arrow
            found.append((self.get_text(), box))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", draw)
        yield found


def overlaps(texts: list[tuple[str, Bbox]]) -> list[tuple[str, str]]:
    """Return the texts that lie over one another."""
    return [
        (one, other)
        for (one, box), (other, beside) in combinations(texts, 2)
        if min(box.x1, beside.x1) - max(box.x0, beside.x0) > -BETWEEN
        and min(box.y1, beside.y1) - max(box.y0, beside.y0) > TOUCH
    ]


def is_empty(axes: Axes) -> bool:
    return axes.get_visible() and not (
        axes.lines or axes.collections or axes.patches or axes.images
    )


@pytest.mark.parametrize(
    ("folder", "name", "schemes", "size"),
    # Without a size, that of a page.
    [*((*case, size) for case in CASES for size in ("column", "")), *CHOSEN],
)
def test_a_figure_fits_a_paper(folder: str, name: str, schemes: str, size: str) -> None:
    figure = drawn(name, records_of(folder, schemes), size)
    if figure is None:
        assert schemes
        return
    expect_room(figure, {"column": 3.4, "": 7.0}[size])
    assert ("seed" in figure.get_suptitle()) == (not size)


@pytest.mark.parametrize("name", sorted(LONG))
def test_a_figure_of_all_schemes_fits_a_page(name: str) -> None:
    figure = drawn(name, records_of(SHORT, ""))
    assert figure is not None
    expect_room(figure, 7.0)


def expect_room(figure: Figure, width: float) -> None:
    """Expect a figure of that width in inches, whose texts have room, and no holes."""
    assert figure.get_figwidth() == width
    assert figure.get_figheight() <= PAGE
    with texts_drawn() as texts:
        figure.draw_without_rendering()
    assert texts
    assert overlaps(texts) == []
    edges = figure.bbox
    outside = [
        text
        for text, box in texts
        if box.x0 < -TOUCH
        or box.y0 < -TOUCH
        or box.x1 > edges.x1 + TOUCH
        or box.y1 > edges.y1 + TOUCH
    ]
    assert outside == []
    assert not [axes for axes in figure.axes if is_empty(axes)]
    if label := figure.get_supylabel():
        (box,) = [box for text, box in texts if text == label]
        ends = [end for axes in figure.axes for end in axes.bbox.intervaly]
        middle = (min(ends) + max(ends)) / 2
        assert (box.y0 + box.y1) / 2 == pytest.approx(middle, abs=TOUCH)
