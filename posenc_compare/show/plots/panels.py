"""Panels side by side, heat maps, and what is written around them."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import Locator, MaxNLocator, NullLocator

from posenc_compare.records.record import Record
from posenc_compare.show.plots.frames import Array
from posenc_compare.show.plots.paper import SIZE
from posenc_compare.show.plots.style import MIDDLE, new_figure, safe

SMALL = 6.5  # points of what is written beside maps
CELLS = 128  # on a side of a map, above which pixels hold several
ENTRY = 44  # characters of a line of a legend
LETTER, LINE = 0.053, 0.125  # inches of a legend: a letter, and a line


def new_panels(
    titles: Sequence[str], across: int, height: float, *, share: bool = True
) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes for each title."""
    across = min(across, len(titles))
    down = math.ceil(len(titles) / across)
    figure = new_figure(height * down)
    grid = figure.subplots(down, across, sharex=share, sharey=share, squeeze=False)
    for axes in grid.flat[len(titles) :]:
        axes.remove()
    panels = [*grid.flat[: len(titles)]]
    for i, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        axes.set_title(title, loc="left")
        axes.tick_params(labelbottom=not share or i + across >= len(titles))
    return figure, panels


def set_ticks(axis: Axis, locator: Locator) -> None:
    """Write numbers at the places of a locator alone."""
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def name_values(figure: Figure, text: str) -> None:
    """Write what the y axes count at the left, in the middle of all panels."""
    label = figure.supylabel(text, fontsize="medium")
    figure.draw_without_rendering()  # lays out the panels, which a legend moves up
    ends = [end for axes in figure.axes for end in axes.get_position().intervaly]
    label.set_y((min(ends) + max(ends)) / 2)


def legend_below(
    figure: Figure, entries: Mapping[str, Artist], title: str | None = None
) -> None:
    """Put a legend below everything; the figure grows by its height."""
    if not entries:
        return
    texts = [textwrap.fill(name, ENTRY) for name in entries]
    longest = max(len(line) for text in texts for line in text.splitlines() or [""])
    columns = int(figure.get_figwidth() / (LETTER * longest + 0.45))
    columns = max(1, min(len(texts), columns))
    rows = math.ceil(len(texts) / columns)
    lines = rows * max(text.count("\n") + 1 for text in texts) + bool(title)
    figure.set_figheight(figure.get_figheight() + LINE * lines + 0.12)
    figure.legend(
        [*entries.values()],
        texts,
        loc="outside lower center",
        ncols=math.ceil(len(texts) / rows),
        title=title,
        handlelength=2.6,
        columnspacing=1.2,
    )


def note_setting(figure: Figure, text: str) -> None:
    """Write a grey line above everything: the setting, and how many seeds.

    A figure as wide as a paper has it in its caption there.
    """
    if SIZE.get():
        return
    text = textwrap.fill(safe(text, 300), int(figure.get_figwidth() * 19))
    figure.set_figheight(figure.get_figheight() + 0.12 * (text.count("\n") + 1))
    figure.suptitle(text, x=0.995, ha="right", color=MIDDLE, fontsize=6)


def note_seed(
    figure: Figure, records: Iterable[Record], when: str, more: str = ""
) -> None:
    """Write which seed a figure shows, the first of each scheme, and when."""
    ordered = sorted(records, key=lambda one: -one.spec.seed)
    first = sorted({*{one.label: one.spec.seed for one in ordered}.values()})
    word = "seed" if len(first) == 1 else "seeds"
    note_setting(figure, f"{when}, {word} {', '.join(map(str, first))}{more}")


def draw_heat(
    axes: Axes,
    values: Array,
    ends: tuple[Any, float, float],
    *,
    square: bool = True,
    ticks: int = 4,
    **given: Any,
) -> None:
    """Draw a matrix, its first row at the top; NaN shows the background.

    Where a pixel holds several numbers of a large matrix, it shows their mean. Rows
    with labels of their own, which are `given` to seaborn, are not mixed so.
    """
    import seaborn as sns

    cmap, low, high = ends
    if max(values.shape) > CELLS and not given:
        axes.imshow(
            values,
            cmap=cmap if isinstance(cmap, str) else ListedColormap(cmap),
            vmin=low,
            vmax=high,
            aspect="equal" if square else "auto",
            interpolation="antialiased",
            interpolation_stage="data",
            extent=(0, values.shape[1], values.shape[0], 0),
        )
        axes.tick_params(labelsize=SMALL)
        axes.grid(visible=False)
        return
    rows, columns = (max(1, round(side / ticks)) for side in values.shape)
    labels = {"yticklabels": rows, "xticklabels": columns, **given}
    colours = {"cmap": cmap, "vmin": low, "vmax": high}
    shape = {"square": square, "rasterized": True, "cbar": False}
    sns.heatmap(values, ax=axes, **shape, **colours, **labels)
    axes.tick_params(labelrotation=0, labelsize=SMALL)
    axes.grid(visible=False)


def add_bar(
    figure: FigureBase, axes: Axes, label: str, extend: str = "neither", **place: Any
) -> None:
    """Draw the colour bar of maps that have one scale."""
    drawn = [*axes.images, *axes.collections][0]  # lines may lie on an image
    ticks = MaxNLocator(5, steps=[1, 2, 5, 10])
    bar = figure.colorbar(drawn, extend=extend, ticks=ticks, **place)
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(labelsize=SMALL)
    bar.set_label(label, fontsize=SMALL)
