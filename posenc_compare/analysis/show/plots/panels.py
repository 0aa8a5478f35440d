"""Panels side by side, the lines in them, and what is written around them."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import Frame, interval
from posenc_compare.analysis.show.plots.paper import (
    COLUMN,
    PAGE,
    columns_of,
    paper_width,
)
from posenc_compare.analysis.show.plots.style import MIDDLE, Look, new_figure, safe
from posenc_compare.stats.intervals import LEVEL

MANY = 12  # schemes that one panel holds
COMMON = 4  # schemes of no family that are in all panels, if they are no more
ENTRY = 44  # characters of a line of a legend
BESIDE = 28  # characters of a line of a legend beside a panel
LINE = 0.125  # inches of a line of a legend
HIGH = 7.9  # inches of all rows of a figure: with its legend it fits a page
BAND: dict[str, Any] = {"alpha": 0.15, "linewidth": 0}
TRAINING: dict[str, Any] = {"color": MIDDLE, "linewidth": 0.7, "linestyle": (0, (2, 2))}


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


def by_family(styles: Mapping[str, Look]) -> dict[str, list[str]]:
    """Return the texts of schemes by the title of their panel, in order of legends.

    Where they are many, there is a panel for each family, and what belongs to none is
    in all of them, to compare with.
    """
    texts: dict[str, list[str]] = {}
    for look in styles.values():
        texts.setdefault(look.family, []).append(look.text)
    if len(styles) <= MANY:
        return {"": [look.text for look in styles.values()]}
    common = texts.get("none", []) if len(texts.get("none", [])) <= COMMON else []
    found = {}
    for family, own in texts.items():
        if own is common:
            continue
        count = math.ceil(len(own) / MANY)
        size = math.ceil(len(own) / count)  # about as many in each
        for i in range(count):
            title = f"{family} ({i + 1} of {count})" if count > 1 else family
            found[title] = common + own[i * size : (i + 1) * size]
    return found or {"": common}


def draw_lines(
    axes: Axes,
    rows: Frame,
    styles: Mapping[str, Look],
    *,
    markers: bool = True,
    bands: bool = True,
) -> dict[str, Artist]:
    """Draw the mean over seeds of each scheme, and a band for its interval.

    Args:
        axes: where to draw.
        rows: `scheme`, `x` and `value` of each seed.
        styles: look of every scheme.
        markers: whether to mark the points.
        bands: whether to draw intervals.

    Returns:
        Legend entries by the text of a scheme.
    """
    rows = rows.dropna(subset="value")
    present = set(rows["scheme"])
    shown = {look.text: look for look in styles.values() if look.text in present}
    sns.lineplot(
        rows,
        x="x",
        y="value",
        hue="scheme",
        style="scheme",
        hue_order=list(shown),
        style_order=list(shown),
        palette={text: look.colour for text, look in shown.items()},
        dashes={text: look.dash for text, look in shown.items()},
        markers={t: look.marker for t, look in shown.items()} if markers else False,
        errorbar=interval if bands else None,
        err_kws=BAND,
        ax=axes,
    )
    legend = axes.get_legend()
    if legend is None:
        return {}
    legend.remove()
    axes.set(xlabel="", ylabel="")
    handles, names = axes.get_legend_handles_labels()
    return dict(zip(names, handles, strict=True))


def legend_beside(axes: Axes, entries: Mapping[str, Artist]) -> None:
    """Name the lines of a panel at its right."""
    names = [textwrap.fill(name, BESIDE) for name in entries]
    axes.legend(
        [*entries.values()],
        names,
        loc="center left",
        bbox_to_anchor=(1, 0.5),
        fontsize=5.8,
        handlelength=2.2,
    )


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
    """Name the axes at the left and the bottom of panels alone."""
    for axes in panels:
        spec = axes.get_subplotspec()
        lowest = axes.xaxis.get_tick_params()["labelbottom"]
        axes.set_xlabel(x if lowest else "", visible=True)
        axes.set_ylabel(y if spec is None or spec.is_first_col() else "")


def length_axis(axes: Axes, label: str = "{x:g}") -> None:
    """Give the x axis a base-2 logarithm, with ticks written as whole numbers."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=10))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(label)


def value_axis(axes: Axes) -> str:
    """Make the y axis logarithmic where it is wide; return words that say so."""
    low, high = axes.get_ylim()
    if not high > 2 * low > 0:
        return ""
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    subs = (1, 2, 5) if high > 10 * low else (1, 1.5, 2, 3, 4, 6, 8)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    return " (logarithmic)"


def mark_training(
    panels: Iterable[Axes], lengths: Iterable[float]
) -> dict[str, Artist]:
    """Draw a line at each training length and return the legend entry."""
    found = sorted(set(lengths))
    for axes in panels:
        for length in found:
            axes.axvline(length, zorder=0, **TRAINING)
    label = "training length" if len(found) == 1 else "training lengths"
    return {label: Line2D([], [], **TRAINING)}


def band_entry(rows: Frame) -> dict[str, Artist]:
    """Return the legend entry of all bands, if any point has two seeds."""
    keys = [name for name in ("scheme", "quantity", "case", "x") if name in rows]
    if rows.groupby(keys)["value"].count().max() < 2:
        return {}
    return {f"{LEVEL:.0%} interval": Patch(color=MIDDLE, **BAND)}


def mark_ends(
    panels: Mapping[str, Axes], rows: Frame, styles: Mapping[str, Look], ended: set[str]
) -> dict[str, Artist]:
    """Put a bar at the last point of lines of schemes that stop before the others.

    Args:
        panels: axes by title.
        rows: `panel`, `scheme`, `x` and `value` of each seed.
        styles: look of every scheme.
        ended: the schemes, by text.

    Returns:
        The legend entry of all bars.
    """
    bar: dict[str, Any] = {"marker": "|", "markersize": 9, "markeredgewidth": 1.5}
    rows = rows[rows["scheme"].isin(ended)].dropna(subset="value")
    if rows.empty:
        return {}
    colours = {look.text: look.colour for look in styles.values()}
    means = rows.groupby(["panel", "scheme", "x"], as_index=False)["value"].mean()
    for end in means.groupby(["panel", "scheme"]).tail(1).itertuples():
        colour = colours[str(end.scheme)]
        panels[str(end.panel)].plot(end.x, end.value, color=colour, zorder=5, **bar)
    return {"no further positions": Line2D([], [], color=MIDDLE, linestyle="", **bar)}


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
