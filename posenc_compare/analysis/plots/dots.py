"""Dot plots: schemes down, numbers across, one panel per quantity."""

import math
import textwrap
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from posenc_compare.analysis.plots.records import Record, rows_of, usable
from posenc_compare.analysis.plots.style import (
    MARKERS,
    MIDDLE,
    PAGE,
    add_legend,
    looks,
    new_figure,
    safe,
)

WIDE = 50.0  # ratio of largest to smallest from which an axis is logarithmic


def draw_dots(
    records: list[Record], measure: str, quantities: list[str], title: str
) -> Figure | None:
    """Draw every quantity that the records have, the mean over seeds of each case.

    Args:
        records: of all schemes.
        measure: whose records to draw.
        quantities: in the order of panels.
        title: what the cases are, for the legend.
    """
    styles = looks(records)
    chosen = usable(records, measure)
    rows = rows_of(chosen, styles).dropna(subset="value")
    shown = [name for name in quantities if (rows["quantity"] == name).any()]
    rows = rows[rows["quantity"].isin(shown)]
    if rows.empty:
        return None
    names = list(rows["scheme"].unique())
    cases = {case: safe(str(case)) for case in rows["case"].unique()}
    markers = dict(zip(cases, MARKERS * len(cases), strict=False))
    figure = new_figure(PAGE, 0.16 * len(names) + 0.75)
    grid = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    means = rows.groupby(["quantity", "case", "label"], sort=False, as_index=False)
    means = means["value"].mean()
    for axes, name in zip(grid, shown, strict=True):
        panel = means[means["quantity"] == name]
        place = {label: i for i, label in enumerate(rows["label"].unique())}
        sns.scatterplot(
            panel.assign(y=_dodged(panel, place, list(cases))),
            x="value",
            y="y",
            hue="label",
            palette={label: look.colour for label, look in styles.items()},
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
        _value_axis(axes, panel["value"], name, _unit(chosen, name))
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_ylabel("")
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
        sns.despine(ax=axes, left=True)
    handles = [
        Line2D(
            [], [], color=MIDDLE, marker=markers[case], linestyle="", markersize=4,
            label=text,
        )
        for case, text in cases.items()
        if text
    ]
    add_legend(figure, handles, title=title)
    return figure


def _dodged(
    panel: pd.DataFrame, place: dict[str, int], cases: list[str]
) -> list[float]:
    """Return the height of every dot; equal numbers of one scheme stand apart."""
    here = [case for case in cases if (panel["case"] == case).any()]
    step = 0.56 / max(1, len(here) - 1)
    middle = (len(here) - 1) / 2
    return [
        place[label] + (here.index(case) - middle) * step
        for label, case in zip(panel["label"], panel["case"], strict=True)
    ]


def _value_axis(axes: Axes, values: pd.Series, name: str, unit: str) -> None:
    """Give the axis its scale and its label."""
    sizes = values.abs()
    positive = sizes[sizes > 0]
    if unit.split(" ")[0] == "share":
        axes.set_xlim(-0.03, 1.03)
        axes.xaxis.set_major_locator(MaxNLocator(3))
    elif len(positive) and positive.max() > WIDE * positive.min():
        least = 10.0 ** math.floor(math.log10(positive.min()))
        if (values > 0).all():
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=least, linscale=0.5)
    else:
        axes.set_xlim(min(0.0, 1.08 * values.min()), max(0.0, 1.08 * values.max()))
        axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_title(safe(name.replace("_", " ")))
    axes.set_xlabel("\n".join(textwrap.wrap(safe(unit, 120), 24)))


def _unit(records: list[Record], name: str) -> str:
    for record in records:
        facts = record.get("quantities", {}).get(name)
        if facts:
            return str(facts.get("unit", ""))
    return ""
