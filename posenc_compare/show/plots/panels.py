"""Panels side by side, and what is written around them."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posenc_compare.records.record import Record
from posenc_compare.show.plots.paper import (
    COLUMN,
    PAGE,
    columns_of,
    paper_width,
)
from posenc_compare.show.plots.style import MIDDLE, new_figure, safe

ENTRY = 44  # characters of a line of a legend
LINE = 0.125  # inches of a line of a legend
HIGH = 7.9  # inches of all rows of a figure: with its legend it fits a page


def new_panels(
    titles: Sequence[str],
    *,
    columns: int = 2,
    width: float = 3.4,
    height: float = 2.0,
    page: bool = True,
    share: bool = True,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes for each title.

    Args:
        titles: of the panels.
        columns: panels side by side, at most.
        width: inches that a panel needs at least.
        height: inches of a row; less where rows would not fit a page.
        page: whether the figure is as wide as a page, or as a column.
        share: whether they share their axes.
    """
    columns = columns_of(width, min(columns, len(titles)))
    rows = math.ceil(len(titles) / columns)
    height = min(height, HIGH / rows)
    figure = new_figure(PAGE if page else COLUMN, height * rows)
    grid = figure.subplots(rows, columns, sharex=share, sharey=share, squeeze=False)
    for axes in grid.flat[len(titles) :]:
        axes.remove()
    panels = list(grid.flat[: len(titles)])
    for i, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        axes.set_title(title, loc="right")
        axes.tick_params(labelbottom=not share or i + columns >= len(titles))
    return figure, panels


def legend_below(
    figure: Figure, entries: Mapping[str, Artist], title: str | None = None
) -> None:
    """Put a legend below everything; the figure grows by its height."""
    if not entries:
        return
    texts = [textwrap.fill(name, ENTRY) for name in entries]
    lines = [line for text in texts for line in text.splitlines()] or [""]
    width = 0.053 * max(map(len, lines)) + 0.45  # inches, from the mean glyph
    columns = max(1, min(len(texts), int(figure.get_figwidth() / width)))
    rows = math.ceil(len(texts) / columns)
    high = sum(sorted((text.count("\n") + 1 for text in texts), reverse=True)[:rows])
    growth = LINE * (high + bool(title)) + 0.12
    figure.set_figheight(figure.get_figheight() + growth)
    figure.legend(
        [*entries.values()],
        texts,
        loc="outside lower center",
        ncols=math.ceil(len(texts) / rows),
        title=title,
        handlelength=2.6,
        columnspacing=1.2,
    )


def name_axes(panels: Sequence[Axes], x: str, y: str) -> None:
    """Name the y axis that panels share once, and the x axis below each column."""
    for axes in panels:
        lowest = axes.xaxis.get_tick_params()["labelbottom"]
        axes.set_xlabel(x if lowest else "", visible=True)
        axes.set_ylabel("")
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    figure.supylabel(y, fontsize="medium")


def note_setting(figure: Figure, text: str) -> None:
    """Write a grey line above everything: the setting, and how many seeds."""
    wide = int(paper_width(figure.get_figwidth()) * 19)
    text = textwrap.fill(safe(text, 300), wide)
    figure.set_figheight(figure.get_figheight() + 0.12 * (text.count("\n") + 1))
    figure.suptitle(text, x=0.995, ha="right", color=MIDDLE, fontsize=6)


def note_seed(figure: Figure, records: Iterable[Record], when: str) -> None:
    """Write of which seed a figure is, the first of each scheme, and when in training.

    Args:
        figure: of one seed of each scheme.
        records: it is drawn from.
        when: such as `before training`.
    """
    seeds: dict[str, set[int]] = {}
    for record in records:
        seeds.setdefault(record.label, set()).add(record.spec.seed)
    first = sorted({min(some) for some in seeds.values()})
    word = "seed" if len(first) == 1 else "seeds"
    note_setting(figure, f"{when}, {word} {', '.join(map(str, first))}")
