"""Similarity: how alike two positions look, by the distance between them."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.alike import drawn_once
from posenc_compare.analysis.show.plots.frames import Frame, arrays_of, usable
from posenc_compare.analysis.show.plots.lines import THIN, draw_lines, shade
from posenc_compare.analysis.show.plots.panels import add_legends, groups_of
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.style import (
    COLUMN,
    PAGE,
    Look,
    looks,
    new_figure,
)
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
    columns = [curves for curves in (cosines, logits) if not curves.empty]
    if not columns:
        return None
    groups = groups_of(styles, [*cosines["scheme"], *logits["scheme"]])
    many = len(groups) > 1
    width = PAGE if len(columns) > 1 or many else COLUMN
    figure = new_figure(width, 1.9 * len(groups) if many else 2.6)
    grid = figure.subplots(len(groups), len(columns), sharey="col", squeeze=False)
    legends = []
    for row, (title, texts) in zip(grid, groups.items(), strict=True):
        handles: dict[str, Line2D] = {}
        for axes, curves in zip(row, columns, strict=True):
            own = curves[curves["scheme"].isin(texts)]
            own = own.assign(  # far below its end, an axis shows nothing
                value=own["value"].clip(lower=-2 * DEEP),
                half_width=own["half_width"].where(own["value"] > -DEEP),
            )
            if own.empty:
                axes.set_axis_off()
                continue
            for handle in draw_lines(axes, own, styles, width=THIN):
                handles.setdefault(str(handle.get_label()), handle)
            if curves is logits:
                _logit_axis(axes, curves)
            else:
                axes.set_ylabel("mean cosine of two codes")
            _distance_axis(axes, curves["x"].max())
        row[-1].set_title(title, loc="right")
        legends.append([handles[text] for text in texts if text in handles])
    add_legends(figure, [row[-1] for row in grid], legends, shade(pd.concat(columns)))
    return figure


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
    axes.set_ylabel("mean logit minus that\nat 0")
    if curves["value"].min() < -DEEP:
        axes.set_ylim(-DEEP, max(0.5, 1.1 * curves["value"].max()))
        axes.set_ylabel(f"mean logit minus that\nat 0, to \N{MINUS SIGN}{DEEP:g}")
    axes.axhline(0, color="0.85", linewidth=0.5, zorder=0)
