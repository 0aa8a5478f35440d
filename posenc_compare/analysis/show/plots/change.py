"""Change: how far bits per byte move from those at the training length."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.floors import one_floor
from posenc_compare.analysis.show.plots.alike import drawn_once
from posenc_compare.analysis.show.plots.extrapolation import FLOORS, LABELS, name_axes
from posenc_compare.analysis.show.plots.frames import Frame, in_bits
from posenc_compare.analysis.show.plots.lines import draw_lines, shade
from posenc_compare.analysis.show.plots.panels import (
    add_legends,
    groups_of,
    new_panels,
    outer_labels,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import FAINT, MIDDLE, Look, looks, safe
from posenc_compare.stats.intervals import half_width

QUANTITIES = ("bits_per_byte", FLOORS)
LINEAR = 0.1  # bits around 0 that are drawn on a linear scale
STRIP: dict[str, Any] = {"color": FAINT, "alpha": 0.4, "linewidth": 0}
FLOOR: dict[str, Any] = {"color": MIDDLE, "linewidth": 0.6}
TICKS = (-0.1, -0.05, 0, 0.05, 0.1, 0.2, 0.5, 1, 2, 4)


@register_plot(
    "change",
    order=12,
    measure="extrapolation",
    caption="Bits per byte minus those of the same network at the training length: "
    "means over seeds with their 95% intervals. The axis is linear in the shaded strip "
    "and logarithmic beyond. Grey: n-gram models of the same training bytes.",
)
def draw_change(records: list[Record]) -> Figure | None:
    """Draw what every scheme gains or loses in longer tests, on one scale for all."""
    styles = looks(records)
    chosen = in_bits(records)
    rows = _changes(chosen, styles)
    if rows["x"].nunique() < 2:
        return None
    floors = rows[rows["quantity"] == FLOORS]
    floors = floors if one_floor(chosen, FLOORS) else floors.head(0)
    floors = floors.groupby(["case", "x"])["value"].mean().unstack("case")
    own = rows[rows["quantity"] == "bits_per_byte"]
    own = own.groupby(["scheme", "x"], sort=False, as_index=False)["value"]
    means = own.agg("mean").assign(half_width=own.agg(half_width)["value"])
    styles, means = drawn_once(styles, means)
    groups = groups_of(styles, means["scheme"])
    figure, panels = new_panels(groups)
    handles = []
    trained = [name_axes(axes, rows, chosen) for axes in panels]
    for axes, texts in zip(panels, groups.values(), strict=True):
        curves = means[means["scheme"].isin(texts)]
        axes.axhspan(-LINEAR, LINEAR, zorder=0, **STRIP)
        axes.plot(floors.index, floors, zorder=2, **FLOOR)
        handles.append(draw_lines(axes, curves, styles, markers=True, same=0))
        _change_axis(axes, means)
    common = [*trained[:1], *shade(means)]
    if not floors.empty:
        common.append(Line2D([], [], label="n-gram models", **FLOOR))
    common.append(Patch(label="linear scale, else log", **STRIP))
    add_legends(figure, panels, handles, common)
    outer_labels(panels, LABELS[0], "bits per byte minus\nown at training length")
    say_setting(figure, chosen)
    return figure


def _changes(records: list[Record], styles: dict[str, Look]) -> Frame:
    """Return the bits of every seed minus those at its shortest length.

    Those that a scheme has at no second length are left out.
    """
    found = []
    for record in records:
        curves: dict[tuple[str, str], dict[float, float]] = {}
        for row in record.rows:
            if row.quantity in QUANTITIES and row.x and row.value is not None:
                curves.setdefault((row.quantity, row.case), {})[row.x] = row.value
        for (quantity, case), points in curves.items():
            first = points[min(points)]
            found += [
                (styles[record.label].text, quantity, safe(case), x, value - first)
                for x, value in sorted(points.items())
                if len(points) > 1
            ]
    return pd.DataFrame(found, columns=["scheme", "quantity", "case", "x", "value"])


def _signed(change: float, place: int) -> str:
    """Return a tick with its sign."""
    return f"{change:+g}".replace("-", "\N{MINUS SIGN}") if change else "0"


def _change_axis(axes: Axes, means: Frame) -> None:
    """Make heights linear around 0 and logarithmic beyond; equal for all panels."""
    axes.set_yscale("symlog", linthresh=LINEAR, linscale=1.2)
    width = means["half_width"].fillna(0)
    low = min(-LINEAR, (means["value"] - width).min())
    high = max(LINEAR, (means["value"] + width).max())
    axes.set_ylim(1.15 * low, 1.15 * high)
    ticks = [tick for tick in TICKS if low <= tick <= 1.15 * high]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FuncFormatter(_signed))
    axes.yaxis.set_minor_locator(NullLocator())
