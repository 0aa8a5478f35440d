"""Dot plots: schemes down, numbers across, one panel per quantity."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import Frame, means_table, usable
from posenc_compare.analysis.show.plots.paper import paper_width, wrapped
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import (
    FAINT,
    MARKERS,
    MIDDLE,
    PAGE,
    add_legend,
    looks,
    new_figure,
    palette,
    safe,
)
from posenc_compare.stats.intervals import LEVEL
from posenc_compare.stats.rounding import NOTHING

SHARE = "share "  # of something: how a unit from 0 to 1 begins
WIDE = 50.0  # ratio of largest to smallest from which an axis is logarithmic
ROW, EDGE = 0.125, 0.35  # inches of a scheme, and of ticks and edges
LINE = 0.115  # inches of a line of a title or a unit
LABELS = 110  # characters of a title or a unit
WITH_ZERO = "logarithmic; 0 in grey"
NAMES = 1.1  # inches of the names of schemes
BAR = 0.7  # points, the width of an interval


class Mark(NamedTuple):
    """How the dots of a case look.

    Attributes:
        text: for the legend; empty for no entry.
        marker: its shape.
        filled: or open.
    """

    text: str
    marker: str = "o"
    filled: bool = True


def draw_dots(
    records: list[Record],
    measure: str,
    titles: dict[str, str],
    cases: str,
    at: float | None = None,
) -> Figure | None:
    """Draw every quantity that the records have, a dot for each case.

    A dot is the mean over seeds, and the bar through it its 95 % interval.

    Args:
        records: of all schemes.
        measure: whose records to draw.
        titles: of the panels, by quantity.
        cases: what the cases are, for the legend.
        at: the one point of curves to draw; all rows, if there is none.
    """
    styles = looks(records)
    chosen = usable(records, measure)
    rows = means_table(chosen, styles).dropna(subset="value")
    rows = rows if at is None else rows[rows["x"] == at]
    shown = [name for name in titles if (rows["quantity"] == name).any()]
    rows = rows[rows["quantity"].isin(shown)]
    if rows.empty:
        return None
    names = list(rows["scheme"].unique())
    found = list(rows["case"].unique())
    marks = {
        case: Mark(case, marker)
        for case, marker in zip(found, MARKERS * len(found), strict=False)
    }
    room = (paper_width(PAGE) - NAMES) / len(shown)
    units = {name: unit_of(chosen, name) for name in shown}
    height = panel_height(len(names), [(titles[k], units[k]) for k in shown], room)
    figure = new_figure(PAGE, height)
    grid = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, name in zip(grid, shown, strict=True):
        panel = rows[rows["quantity"] == name]
        whole = units[name].startswith(SHARE)
        draw_panel(axes, panel, names, marks, palette(styles), whole=whole)
        name_panel(axes, titles[name], units[name], room)
    add_legend(figure, [*mark_entries(marks.values()), *bar_entry(rows)], title=cases)
    say_setting(figure, chosen)
    return figure


def draw_panel(
    axes: Axes,
    panel: Frame,
    names: Sequence[str],
    marks: dict[str, Mark],
    colours: dict[str, str],
    *,
    whole: bool,
) -> None:
    """Draw the dots of one quantity, with their intervals, and give it its scale.

    Args:
        axes: where to draw.
        panel: `scheme`, `case`, `value`, `half_width`.
        names: of schemes, from the top.
        marks: of cases; equal numbers of one scheme stand apart, in this order.
        colours: of schemes.
        whole: whether the axis goes from 0 to 1, as that of shares.
    """
    place, least = _value_axis(axes, panel, whole)
    for case, mark in marks.items():
        own = panel[panel["case"] == case]
        for row, height in zip(
            own.itertuples(), _heights(own, panel, names, [*marks]), strict=True
        ):
            colour = colours[str(row.scheme)]
            x, width = float(row.value), float(row.half_width)
            if width > 0:
                ends = max(x - width, least), max(x + width, least)
                axes.hlines(height, *ends, color=colour, linewidth=BAR, zorder=2)
            axes.scatter(
                x if abs(x) > NOTHING else place,
                height,
                s=15,
                marker=mark.marker,
                facecolor=colour if mark.filled else "white",
                edgecolor=colour,
                linewidth=0.6,
                clip_on=False,
                zorder=3,
            )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    sns.despine(ax=axes, left=True)


def panel_height(schemes: int, labels: Iterable[tuple[str, str]], room: float) -> float:
    """Return the inches of panels side by side, with what is written around them.

    Args:
        schemes: how many stand one above the other.
        labels: title and unit of each panel.
        room: inches of a panel.
    """
    above, below = (
        max(wrapped(safe(text, LABELS), room).count("\n") + 1 for text in texts)
        for texts in zip(*((t, f"{u} ({WITH_ZERO})") for t, u in labels), strict=True)
    )
    return ROW * max(3, schemes) + LINE * (above + below) + EDGE


def name_panel(axes: Axes, title: str, unit: str, room: float) -> None:
    """Write what is drawn above a panel, and its unit and scale below."""
    axes.set_title(wrapped(title, room))
    how = f" ({axes.get_xlabel()})" if axes.get_xlabel() else ""
    axes.set_xlabel(wrapped(safe(f"{unit}{how}", LABELS), room))


def mark_entries(marks: Iterable[Mark]) -> list[Line2D]:
    """Return the legend entries of cases that have a name."""
    return [
        Line2D(
            [],
            [],
            color=MIDDLE,
            marker=mark.marker,
            markerfacecolor=MIDDLE if mark.filled else "white",
            linestyle="",
            markersize=4,
            label=mark.text,
        )
        for mark in marks
        if mark.text
    ]


def bar_entry(rows: Frame) -> list[Line2D]:
    """Return the legend entry of all bars, if any number has an interval."""
    if not rows["half_width"].gt(0).any():
        return []
    return [Line2D([], [], color=MIDDLE, linewidth=BAR, label=f"{LEVEL:.0%} interval")]


def unit_of(records: Iterable[Record], name: str) -> str:
    """Return the unit of a quantity, as the first record says that has it."""
    found = (one.quantities[name].unit for one in records if name in one.quantities)
    return next(found, "")


def _heights(
    own: Frame, panel: Frame, names: Sequence[str], cases: Sequence[str]
) -> list[float]:
    """Return the height of the dots of a case; those of one scheme stand apart."""
    heights = []
    for name, case in zip(own["scheme"], own["case"], strict=True):
        known = set(panel.loc[panel["scheme"] == name, "case"])
        here = [other for other in cases if other in known]
        step = 0.5 / max(1, len(here) - 1)
        middle = (len(here) - 1) / 2
        heights.append(names.index(name) + (here.index(case) - middle) * step)
    return heights


def _value_axis(axes: Axes, panel: Frame, whole: bool) -> tuple[float, float]:
    """Give the axis its scale; return where 0 stands, and the least end of a bar."""
    values, width = panel["value"], panel["half_width"].fillna(0)
    positive = values[values > NOTHING]
    if whole:
        axes.set_xlim(-0.03, 1.03)
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        return 0.0, -math.inf
    if values.min() > -NOTHING and positive.max() > WIDE * positive.min():
        return _log_axis(
            axes, positive.min(), positive.max(), len(positive) < len(values)
        )
    low = min(0.0, 1.08 * (values - width).min())
    high = max(0.0, 1.08 * (values + width).max())
    axes.set_xlim(low, high if high > low else 1.0)  # all may be 0
    axes.xaxis.set_major_locator(MaxNLocator(3))
    return 0.0, -math.inf


def _log_axis(axes: Axes, low: float, high: float, zeros: bool) -> tuple[float, float]:
    """Make the axis logarithmic, with a grey strip at its left in which 0 stands."""
    least, most = math.floor(math.log10(low)), math.ceil(math.log10(high))
    part = 0.06 * (most - least) * zeros  # a third of the strip, in powers of ten
    left, zero, edge = (10 ** (least - i * part) for i in (3, 2, 1))
    exponents = range(least, most + 1, max(1, (most - least + 2) // 3))
    powers = [10.0**i for i in exponents]
    short = all(-3 < i < 4 for i in exponents)
    texts = [f"{10.0**i:g}" if short else f"1e{i}" for i in exponents]
    axes.set_xscale("log")
    axes.set_xlim(left, 1.1 * 10.0**most)
    axes.set_xlabel("logarithmic")
    if zeros:
        axes.axvspan(left, edge, color=FAINT, alpha=0.6, linewidth=0, zorder=0)
        axes.set_xlabel(WITH_ZERO)
        powers, texts = [zero, *powers[1:]], ["0", *texts[1:]]
    axes.set_xticks(powers, texts)
    axes.xaxis.set_minor_locator(NullLocator())
    return zero, edge
