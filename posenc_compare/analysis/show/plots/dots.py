"""Dot plots: schemes down, numbers across, one panel per quantity."""

import math
import textwrap

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator
from pandas import Series

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import Frame, means_table, usable
from posenc_compare.analysis.show.plots.style import (
    MARKERS,
    MIDDLE,
    PAGE,
    add_legend,
    looks,
    new_figure,
    palette,
    safe,
)
from posenc_compare.stats.rounding import NOTHING

WIDE = 50.0  # ratio of largest to smallest from which an axis is logarithmic


def draw_dots(
    records: list[Record], measure: str, quantities: list[str], title: str
) -> Figure | None:
    """Draw every quantity that the records have, a dot for each case.

    A dot is the mean over seeds, and the bar through it its 95 % interval.

    Args:
        records: of all schemes.
        measure: whose records to draw.
        quantities: in the order of panels.
        title: what the cases are, for the legend.
    """
    styles = looks(records)
    chosen = usable(records, measure)
    rows = means_table(chosen, styles).dropna(subset="value")
    shown = [name for name in quantities if (rows["quantity"] == name).any()]
    rows = rows[rows["quantity"].isin(shown)]
    if rows.empty:
        return None
    names = list(rows["scheme"].unique())
    cases = list(rows["case"].unique())
    markers = dict(zip(cases, MARKERS * len(cases), strict=False))
    figure = new_figure(PAGE, 0.16 * max(3, len(names)) + 0.8)
    grid = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    colours = palette(styles)
    for axes, name in zip(grid, shown, strict=True):
        panel = rows[rows["quantity"] == name]
        panel = panel.assign(y=_dodged(panel, names, cases))
        axes.errorbar(
            panel["value"],
            panel["y"],
            xerr=panel["half_width"].fillna(0),
            fmt="none",
            ecolor=[colours[scheme] for scheme in panel["scheme"]],
            elinewidth=0.7,
            zorder=2,
        )
        sns.scatterplot(
            panel,
            x="value",
            y="y",
            hue="scheme",
            palette=colours,
            style="case",
            markers=markers,
            s=17,
            linewidth=0.3,
            alpha=0.9,
            legend=False,
            clip_on=False,
            zorder=3,
            ax=axes,
        )
        _value_axis(axes, panel, name, _unit(chosen, name))
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_ylabel("")
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
        sns.despine(ax=axes, left=True)
    handles = [
        Line2D(
            [],
            [],
            color=MIDDLE,
            marker=markers[case],
            linestyle="",
            markersize=4,
            label=case,
        )
        for case in cases
        if case
    ]
    add_legend(figure, handles, title=title)
    return figure


def _dodged(panel: Frame, names: list[str], cases: list[str]) -> list[float]:
    """Return the height of every dot; equal numbers of one scheme stand apart."""
    heights = []
    for name, case in zip(panel["scheme"], panel["case"], strict=True):
        own = set(panel.loc[panel["scheme"] == name, "case"])
        here = [known for known in cases if known in own]
        step = 0.5 / max(1, len(here) - 1)
        middle = (len(here) - 1) / 2
        heights.append(names.index(name) + (here.index(case) - middle) * step)
    return heights


def _value_axis(axes: Axes, panel: Frame, name: str, unit: str) -> None:
    """Give the axis its scale and its label; intervals may leave a logarithmic one."""
    values, width = panel["value"], panel["half_width"].fillna(0)
    sizes = values.abs()
    positive = sizes[sizes > NOTHING]
    if unit.split(" ")[0] == "share":
        axes.set_xlim(-0.03, 1.03)
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    elif len(positive) and positive.max() > WIDE * positive.min():
        _log_axis(axes, values, math.floor(math.log10(positive.min())))
    else:
        low = min(0.0, 1.08 * (values - width).min())
        high = max(0.0, 1.08 * (values + width).max())
        axes.set_xlim(low, high if high > low else 1.0)  # all may be 0
        axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_title(safe(name.replace("_", " ")))
    axes.set_xlabel("\n".join(textwrap.wrap(safe(unit, 72), 24)))


def _log_axis(axes: Axes, values: Series, least: int) -> None:
    """Make the axis logarithmic from `10 ** least`, and linear down to 0 below."""
    most = math.ceil(math.log10(values.abs().max()))
    powers = [10.0**i for i in range(least, most + 1, max(1, (most - least + 3) // 3))]
    if (values > NOTHING).all():
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=10.0**least, linscale=0.2 * (most - least))
        powers = [0.0, *powers]
        if values.min() < -NOTHING:
            powers = [-power for power in powers[:0:-1]] + powers
        else:
            axes.set_xlim(-0.2 * 10.0**least, 1.5 * values.max())
    axes.set_xticks(powers, [f"{power:g}" for power in powers])
    axes.xaxis.set_minor_locator(NullLocator())


def _unit(records: list[Record], name: str) -> str:
    for record in records:
        if name in record.quantities:
            return record.quantities[name].unit
    return ""
