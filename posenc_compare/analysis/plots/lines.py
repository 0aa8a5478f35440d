"""Lines of schemes: drawn so that two that coincide both stay visible."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from posenc_compare.analysis.plots.style import DASHED, SOLID, Look

WIDTH = 1.3  # points
SAME = 0.004  # of the range of all values: nearer lines cannot be told apart


def draw_lines(
    axes: Axes, curves: pd.DataFrame, styles: dict[str, Look], *, markers: bool
) -> list[Line2D]:
    """Draw one line per label and return a legend handle for each.

    Of lines that coincide, the first is a broad band and the next ones are narrower
    dashes on top.

    Args:
        axes: where to draw.
        curves: `label`, `x`, `value`, one row per point.
        styles: look of every label.
        markers: whether to mark the points.
    """
    handles = []
    below = layers(curves)
    for label, look in styles.items():
        curve = curves[curves["label"] == label].dropna(subset="value")
        if curve.empty:
            continue
        under, over = below[label]
        covered = under > 0 and look.dash == SOLID
        dash = SOLID if over else DASHED if covered else look.dash
        format_ = {
            "color": look.colour,
            "linestyle": dash,
            "linewidth": WIDTH * (1 + 1.4 * over),
            "marker": look.marker if markers else None,
            "markersize": 3.2 + 2.2 * over,
            "markeredgewidth": 0.4,
            "markeredgecolor": "white",
        }
        sns.lineplot(
            curve,
            x="x",
            y="value",
            ax=axes,
            estimator=None,
            legend=False,
            zorder=3 + 0.1 * under,
            alpha=0.45 if over else 1,
            **format_,
        )
        handles.append(
            Line2D([], [], label=look.text, alpha=0.45 if over else 1, **format_)
        )
    return handles


def layers(curves: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Return for each label how many lines it covers, and by how many it is covered.

    Lines count as one where no two points differ by more than `SAME` of the range.
    """
    table = curves.pivot_table(index="x", columns="label", values="value", sort=False)
    low, high = np.nanmin(table, initial=np.inf), np.nanmax(table, initial=-np.inf)
    groups: list[list[str]] = []
    for label in table.columns:
        for group in groups:
            apart = (table[group[0]] - table[label]).abs()
            same_ends = table[group[0]].notna().equals(table[label].notna())
            if same_ends and apart.max() <= SAME * (high - low):
                group.append(label)
                break
        else:
            groups.append([label])
    return {
        label: (i, len(group) - 1 - i)
        for group in groups
        for i, label in enumerate(group)
    }
