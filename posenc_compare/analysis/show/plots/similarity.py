"""Similarity: how alike two positions look, by the distance between them."""

from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.alike import drawn_once
from posenc_compare.analysis.show.plots.frames import Frame, arrays_of, usable
from posenc_compare.analysis.show.plots.lines import THIN, draw_lines, shade
from posenc_compare.analysis.show.plots.panels import (
    ACROSS,
    ROW,
    add_legends,
    groups_of,
)
from posenc_compare.analysis.show.plots.paper import across
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say
from posenc_compare.analysis.show.plots.style import (
    COLUMN,
    PAGE,
    Look,
    add_legend,
    looks,
    new_figure,
)
from posenc_compare.analysis.show.setting import seeds_of, short_setting
from posenc_compare.stats.intervals import half_width

COLUMNS = ("scheme", "x", "value", "half_width")
DEEP = 20.0  # logits below 0 at which the axis ends; steeper lines leave it


@register_plot(
    "similarity",
    order=90,
    caption="Mean cosine of two codes, and mean logit of equal tokens after a "
    "LayerNorm, by their distance: means over seeds with their 95% intervals.",
)
def draw_similarity(records: list[Record]) -> Figure | None:
    """Draw the mean cosine of two codes, and the mean logit, by distance.

    Logits are those of equal tokens after a LayerNorm, as a change from distance 0, on
    a linear axis. It ends where differences no longer matter to a softmax.
    """
    styles = looks(records)
    cosines = _curves(records, "portrait", "similarity", styles)
    logits = _curves(records, "distance_decay", "mean_logit", styles, change=True)
    both = pd.concat([cosines.assign(case="cosine"), logits.assign(case="logit")])
    styles, both = drawn_once(styles, both)
    cosines, logits = (both[both["case"] == case] for case in ("cosine", "logit"))
    if both.empty:
        return None
    groups = groups_of(styles, [*cosines["scheme"], *logits["scheme"]])
    found = {
        (name, title): curves[curves["scheme"].isin(texts)]
        for name, curves in (("cosine", cosines), ("logit", logits))
        for title, texts in groups.items()
    }
    found = {place: curves for place, curves in found.items() if not curves.empty}
    figure, panels = _panels([*found], beside=len(groups) == 1)
    legends = []
    for axes, ((name, title), curves) in zip(panels, found.items(), strict=True):
        own = curves.assign(  # far below its end, an axis shows nothing
            value=curves["value"].clip(lower=-2 * DEEP),
            half_width=curves["half_width"].where(curves["value"] > -DEEP),
        )
        legends.append(draw_lines(axes, own, styles, width=THIN))
        axes.set_title(title, loc="right")
        if name == "logit":
            _logit_axis(axes, logits)
        else:
            axes.set_ylabel("mean cosine\nof two codes")
        _distance_axis(axes, both.loc[both["case"] == name, "x"].max())
    shades = shade(both)
    if len(groups) == 1:  # all panels have one legend
        named = {str(one.get_label()): one for own in legends for one in own}
        texts = [look.text for look in styles.values() if look.text in named]
        add_legend(figure, [*(named[text] for text in texts), *shades])
    else:
        add_legends(figure, panels, legends, shades)
    say(figure, _setting(records))
    return figure


def _setting(records: list[Record]) -> str:
    """Return the setting and the seeds of logits, and of cosines."""
    codes = [one for one in usable(records, "portrait") if "similarity" in one.arrays]
    logits = usable(records, "distance_decay")
    if not (codes and logits):
        return short_setting(codes or logits)
    return f"{short_setting(logits)}; of cosines {seeds_of(codes)}"


def _panels(
    places: list[tuple[str, str]], *, beside: bool
) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes for each name and title.

    Axes of one name share their scale, and the first begins a row.

    Args:
        places: names and titles, those of one name together.
        beside: whether all names stand in one row.
    """
    columns = len(places) if beside else across(ACROSS, 2)
    cells = [(0, 0)]
    for (before, _), (name, _) in pairwise(places):
        row, column = cells[-1]
        new = column + 1 == columns or (name != before and not beside)
        cells.append((row + 1, 0) if new else (row, column + 1))
    rows = cells[-1][0] + 1
    width = PAGE if len(places) > 1 else COLUMN
    figure = new_figure(width, 2.2 if beside else ROW * rows)
    grid = figure.add_gridspec(rows, columns)
    first: dict[str, Axes] = {}
    panels = []
    for (name, _), cell in zip(places, cells, strict=True):
        panels.append(figure.add_subplot(grid[cell], sharey=first.get(name)))
        first.setdefault(name, panels[-1])
    return figure, panels


def _curves(
    records: list[Record],
    measure: str,
    array: str,
    styles: dict[str, Look],
    *,
    change: bool = False,
) -> Frame:
    """Return the mean over seeds of an array over distances.

    Args:
        records: of all measures.
        measure: that has the array.
        array: its name.
        styles: look of every scheme.
        change: whether to count from each seed's own value at distance 0.

    Returns:
        `scheme, x, value, half_width`, a row for each distance.
    """
    parts = []
    for look, seeds in arrays_of(usable(records, measure), array, styles):
        shortest = min(map(len, seeds))
        found = np.array([values[:shortest] for values in seeds])
        found = found - found[:, :1] if change else found
        parts.append(
            pd.DataFrame(
                {
                    "scheme": look.text,
                    "x": range(shortest),
                    "value": found.mean(0),
                    "half_width": [half_width(column) for column in found.T],
                }
            )
        )
    if not parts:
        parts.append(pd.DataFrame({name: [] for name in COLUMNS}))
    return pd.concat(parts, ignore_index=True).dropna(subset="value")


def _distance_axis(axes: Axes, longest: float) -> None:
    axes.set_xlabel("distance (positions)")
    axes.xaxis.set_major_locator(MultipleLocator(32 if longest < 160 else 64))
    axes.set_xlim(0, longest + 1)


def _logit_axis(axes: Axes, curves: Frame) -> None:
    axes.set_ylabel("mean logit minus\nthat at distance 0")
    if curves["value"].min() < -DEEP:
        axes.set_ylim(-DEEP, max(0.5, 1.1 * curves["value"].max()))
        axes.set_ylabel(f"mean logit minus that\nat 0, down to \N{MINUS SIGN}{DEEP:g}")
    axes.axhline(0, color="0.85", linewidth=0.5, zorder=0)
