"""Lines of schemes: drawn so that two that coincide both stay visible."""

from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from posenc_compare.analysis.show.plots.frames import Frame
from posenc_compare.analysis.show.plots.style import (
    DASHED,
    MIDDLE,
    SOLID,
    Look,
    palette,
)
from posenc_compare.stats.intervals import LEVEL

WIDTH, THIN = 1.3, 0.9  # points
BAR: dict[str, Any] = {"marker": "|", "markersize": 7, "markeredgewidth": 1.5}
BAND: dict[str, Any] = {"alpha": 0.15, "linewidth": 0}
SAME = 0.004  # of the range of all values: nearer lines cannot be told apart


def draw_lines(
    axes: Axes,
    curves: Frame,
    styles: dict[str, Look],
    *,
    markers: bool = False,
    width: float = WIDTH,
    same: float = SAME,
) -> list[Line2D]:
    """Draw one line per scheme and return a legend handle for each.

    Of lines that coincide, the first is a broad band and the next ones are narrower
    dashes on top.

    Args:
        axes: where to draw.
        curves: `scheme`, `x`, `value`, one row per point; a shade around it spans
            `half_width` to each side, where it is known.
        styles: look of every scheme.
        markers: whether to mark the points.
        width: of lines, in points.
        same: share of the range of all values within which lines coincide.
    """
    handles = []
    below = layers(curves, same)
    for look in styles.values():
        curve = curves[curves["scheme"] == look.text].dropna(subset="value")
        if curve.empty:
            continue
        if shade(curve):
            low = curve["value"] - curve["half_width"]
            high = curve["value"] + curve["half_width"]
            axes.fill_between(curve["x"], low, high, color=look.colour, **BAND)
        under, over = below[look.text]
        step = min(1.4, 4 / max(1, under + over))  # of widths, from line to line
        covered = under > 0 and look.dash == SOLID
        dash = SOLID if over else DASHED if covered else look.dash
        format_ = {
            "color": look.colour,
            "linestyle": dash,
            "linewidth": width * (1 + step * over),
            "alpha": 0.6 if over else 1.0,
            "marker": look.marker if markers else None,
            "markersize": 3.2 + 1.6 * step * over,
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
            zorder=3 + 0.1 * under + (len(curve) == 1),
            **format_,
        )
        handles.append(Line2D([], [], label=look.text, **format_))
    return handles


def layers(curves: Frame, same: float = SAME) -> dict[str, tuple[int, int]]:
    """Return for each scheme how many lines it covers, and by how many it is covered.

    Lines count as one where no two points differ by more than `same` of the range.
    """
    table = curves.pivot_table(index="x", columns="scheme", values="value", sort=False)
    low, high = np.nanmin(table, initial=np.inf), np.nanmax(table, initial=-np.inf)
    groups: list[list[str]] = []
    for scheme in table.columns:
        for group in groups:
            apart = (table[group[0]] - table[scheme]).abs()
            same_ends = table[group[0]].notna().equals(table[scheme].notna())
            if same_ends and apart.max() <= same * (high - low):
                group.append(scheme)
                break
        else:
            groups.append([scheme])
    return {
        scheme: (i, len(group) - 1 - i)
        for group in groups
        for i, scheme in enumerate(group)
    }


def mark_ends(
    axes: Axes, curves: Frame, schemes: list[str], styles: dict[str, Look]
) -> None:
    """Put a bar behind the last point of lines that stop before the others.

    Bars stand at different distances from their lines, so that none hides another.
    """
    inch = axes.figure.dpi_scale_trans
    for i, scheme in enumerate(schemes):
        curve = curves[curves["scheme"] == scheme].sort_values("x")
        if curve.empty:
            continue
        end = curve.iloc[-1]
        colour = palette(styles)[scheme]
        far = (5 + 5 * i) / 72
        bar = axes.transData + ScaledTranslation(far, 0, inch)
        axes.annotate(
            "",
            (end["x"], end["value"]),
            (far * 72, 0),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8},
            zorder=4.5,
        )
        axes.plot(end["x"], end["value"], color=colour, transform=bar, zorder=5, **BAR)


def shade(curves: Frame) -> list[Patch]:
    """Return the legend entry of all shades, if any point has an interval."""
    if not curves["half_width"].notna().any():
        return []
    return [Patch(color=MIDDLE, label=f"{LEVEL:.0%} interval", **BAND)]


def ended(note: str) -> Line2D:
    """Return the legend entry of all bars at the ends of lines."""
    return Line2D([], [], color=MIDDLE, linestyle="", label=note, **BAR)
