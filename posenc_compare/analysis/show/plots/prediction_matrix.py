"""Correlations with many trained scores: measures down, scores across."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from posenc_compare.analysis.show.plots.paper import paper_width, wrapped
from posenc_compare.analysis.show.plots.style import (
    COLUMN,
    FAINT,
    PAGE,
    add_legend,
    new_figure,
    safe,
)
from posenc_compare.analysis.show.predictions import WHENS, Prediction

ROW = 0.21  # inches of a measure
LETTER = 0.06  # inches of a letter of a score's name
OWN = "own score at training length"  # a control, of every score another
DOT: dict[str, Any] = {
    "marker": "o",
    "markersize": 2.5,
    "linestyle": "",
    "color": "black",
}


def draw_matrix(found: Sequence[Prediction]) -> Figure:
    """Draw a cell for every measure and score, coloured by the correlation.

    A panel holds one place of all curves: the longest test, that minus the training
    length, and the training length.
    """
    names = list(dict.fromkeys(map(_row, found)))
    scores = list(dict.fromkeys(one.curve for one in found))
    shown = [when for when in WHENS if any(one.when == when for one in found)]
    texts = [wrapped(safe(score), 1.2) for score in scores]
    lines = "\n".join(texts).splitlines()
    figure = new_figure(PAGE, ROW * len(names) + LETTER * max(map(len, lines)) + 0.6)
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    room = (figure.get_figwidth() - names_width() - 0.5) / len(shown)
    for axes, when in zip(panels, shown, strict=True):
        some = [one for one in found if one.when == when]
        _draw(axes, some, names, scores)
        axes.set_xticks(np.arange(len(scores)) + 0.5, texts, rotation=90)
        axes.set_title(wrapped(when, room))
    name_rows(panels[0], names, middle=0.5)
    bar = figure.colorbar(
        panels[0].collections[0],
        ax=list(panels),
        ticks=[-1, 0, 1],
        shrink=0.6,
        aspect=25,
    )
    bar.outline.set_visible(False)
    bar.set_label("rank correlation", fontsize=6)
    add_legend(figure, _legend())
    return figure


def name_rows(axes: Axes, names: Sequence[str], middle: float = 0.0) -> None:
    """Write the names of measures at the left, the first at the top.

    Args:
        axes: the first of panels that share their rows.
        names: from the top.
        middle: of a row, from its number on.
    """
    places = [i + middle for i in range(len(names))]
    texts = [wrapped(safe(name), names_width() - 0.1, 6) for name in names]
    axes.set_yticks(places, texts, rotation=0, fontsize=6)
    axes.set_ylim(len(names) - 0.5 + middle, middle - 0.5)


def names_width() -> float:
    """Return the inches of the names of measures."""
    return 1.9 if paper_width(PAGE) > COLUMN else 1.35


def _row(one: Prediction) -> str:
    return OWN if one.of_start else one.quantity


def _draw(
    axes: Axes, found: list[Prediction], names: list[str], scores: list[str]
) -> None:
    """Draw the cells of a panel, and mark those whose intervals leave out 0."""
    values = np.full((len(names), len(scores)), np.nan)
    for one in found:
        y, x = names.index(_row(one)), scores.index(one.curve)
        values[y, x] = one.found.rho
        if _apart(one.found.over_schemes):
            filled = _apart(one.found.over_families)
            face = "black" if filled else "none"
            axes.plot(x + 0.5, y + 0.5, markerfacecolor=face, **DOT)
    axes.set_facecolor(FAINT)
    sns.heatmap(
        values,
        ax=axes,
        cmap="vlag",
        vmin=-1,
        vmax=1,
        cbar=False,
        linewidths=0.3,
        xticklabels=False,
        yticklabels=False,
    )


def _apart(ends: tuple[float, float]) -> bool:
    """Return whether an interval leaves out 0."""
    low, high = ends
    return not math.isnan(low) and (low > 0 or high < 0)


def _legend() -> list[Line2D | Patch]:
    small: dict[str, Any] = {"markersize": 2.5, **DOT}
    return [
        Line2D(
            [], [], label="0 outside 95% over schemes", markerfacecolor="none", **small
        ),
        Line2D([], [], label="and over families", **small),
        Patch(color=FAINT, label="none: few schemes, or all alike"),
    ]
