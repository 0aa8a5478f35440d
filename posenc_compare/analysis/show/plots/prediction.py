"""Prediction: which measure without training foretells a trained score?"""

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import usable
from posenc_compare.analysis.show.plots.paper import wrapped
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.prediction_matrix import (
    ROW,
    draw_matrix,
    name_rows,
    names_width,
)
from posenc_compare.analysis.show.plots.said import say
from posenc_compare.analysis.show.plots.style import (
    FAINT,
    MIDDLE,
    PAGE,
    add_legend,
    new_figure,
    safe,
)
from posenc_compare.analysis.show.predictions import Prediction, predictions
from posenc_compare.analysis.show.setting import short_setting

THICK, NARROW = 2.2, 0.8  # points
LINE = 0.115  # inches of a line of a title
MEASURE, CONTROL = "black", "white"  # faces of dots


@register_plot(
    "prediction",
    order=35,
    caption="Spearman's correlation over schemes of measures without training with "
    "trained scores. Of one score, thick bars are 95% intervals over schemes, thin "
    "ones over families, and open dots are controls. Of several, a ring stands where "
    "the interval over schemes leaves out 0, a dot where that over families does too.",
)
def draw_prediction(records: list[Record]) -> Figure | None:
    """Draw the correlation of every measure and control with every outcome."""
    found = [one for one in predictions(records) if math.isfinite(one.found.rho)]
    if not found:
        return None
    several = len({one.curve for one in found}) > 1
    figure = draw_matrix(found) if several else _draw_dots(found)
    counts = sorted({one.found.n for one in found})
    n = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    trained = [one for one in usable(records, "extrapolation") if one.task]
    means = f"{short_setting(trained)} averaged" if trained else "means over seeds"
    say(figure, f"{means}; {n} schemes")
    return figure


def _draw_dots(found: list[Prediction]) -> Figure:
    """Draw the correlations with the outcomes of one score, a panel for each."""
    by_outcome: dict[str, list[Prediction]] = {}
    for one in found:
        by_outcome.setdefault(one.outcome, []).append(one)
    names = list(dict.fromkeys(one.quantity for one in found))
    figure = new_figure(PAGE, ROW * len(names) + 0.9)
    panels = figure.subplots(1, len(by_outcome), sharey=True, squeeze=False)[0]
    room = (figure.get_figwidth() - names_width()) / len(panels)
    for axes, (outcome, some) in zip(panels, by_outcome.items(), strict=True):
        heights = [names.index(one.quantity) for one in some]
        for width, ends in (
            (NARROW, [one.found.over_families for one in some]),
            (THICK, [one.found.over_schemes for one in some]),
        ):
            axes.hlines(heights, *np.transpose(ends), color=MIDDLE, linewidth=width)
        axes.scatter(
            [one.found.rho for one in some],
            heights,
            s=14,
            c=[CONTROL if one.control else MEASURE for one in some],
            edgecolors=MEASURE,
            linewidths=0.6,
            clip_on=False,
            zorder=3,
        )
        axes.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
        axes.set_title(wrapped(safe(outcome, 80), room))
        axes.set_xlim(-1.05, 1.05)
        axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["\N{MINUS SIGN}1", "", "0", "", "1"])
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    lines = max(axes.get_title().count("\n") for axes in panels)
    figure.set_figheight(figure.get_figheight() + LINE * lines)
    name_rows(panels[0], names)
    panels[len(panels) // 2].set_xlabel("rank correlation")
    add_legend(figure, _legend())
    return figure


def _legend() -> list[Line2D]:
    dot: dict[str, Any] = {"marker": "o", "linestyle": "", "color": MEASURE}
    return [
        Line2D([], [], label="measure", markersize=4, **dot),
        Line2D([], [], label="control", markersize=4, **dot, markerfacecolor=CONTROL),
        Line2D([], [], label="95% over schemes", color=MIDDLE, linewidth=THICK),
        Line2D([], [], label="95% over families", color=MIDDLE, linewidth=NARROW),
    ]
