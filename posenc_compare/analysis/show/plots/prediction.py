"""Prediction: which measure without training foretells a trained score?"""

import textwrap
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.style import (
    FAINT,
    MIDDLE,
    PAGE,
    add_legend,
    new_figure,
    safe,
)
from posenc_compare.analysis.show.predictions import Prediction, predictions

THICK, NARROW = 2.2, 0.8  # points
MEASURE, CONTROL = "black", "white"  # faces of dots


@register_plot(
    "prediction",
    order=35,
    caption="Spearman's correlation over schemes of measures without training with "
    "trained scores. Thick bars are 95% intervals over schemes, thin ones over "
    "families; open dots are controls.",
)
def draw_prediction(records: list[Record]) -> Figure | None:
    """Draw the correlation of every measure and control, a panel for each outcome."""
    by_outcome: dict[str, list[Prediction]] = {}
    for one in predictions(records):
        by_outcome.setdefault(one.outcome, []).append(one)
    if not by_outcome:
        return None
    every = [one for found in by_outcome.values() for one in found]
    names = list(dict.fromkeys(one.quantity for one in every))
    figure = new_figure(PAGE, 0.19 * len(names) + 0.7)
    panels = figure.subplots(1, len(by_outcome), sharey=True, squeeze=False)[0]
    for axes, (outcome, found) in zip(panels, by_outcome.items(), strict=True):
        heights = [names.index(one.quantity) for one in found]
        for width, ends in (
            (NARROW, [one.found.over_families for one in found]),
            (THICK, [one.found.over_schemes for one in found]),
        ):
            axes.hlines(heights, *np.transpose(ends), color=MIDDLE, linewidth=width)
        axes.scatter(
            [one.found.rho for one in found],
            heights,
            s=14,
            c=[CONTROL if one.control else MEASURE for one in found],
            edgecolors=MEASURE,
            linewidths=0.6,
            zorder=3,
        )
        axes.axvline(0, color=FAINT, linewidth=0.6, zorder=0)
        axes.set_title("\n".join(textwrap.wrap(safe(outcome, 80), 26)))
        axes.set_xlim(-1.05, 1.05)
        axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["-1", "", "0", "", "1"])
        axes.set_xlabel("rank correlation")
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    panels[0].set_yticks(range(len(names)), [safe(name) for name in names])
    panels[0].set_ylim(len(names) - 0.5, -0.5)
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
