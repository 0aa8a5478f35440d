"""Dot plots: schemes down, numbers across, one panel for each quantity."""

import math
import textwrap

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator

from posenc_compare.show.frame import Frame, Numbers, usable
from posenc_compare.show.plots.frames import means_of
from posenc_compare.show.plots.panels import (
    legend_below,
    new_panels,
    note_setting,
    set_ticks,
)
from posenc_compare.show.plots.paper import columns_of
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, Look, looks, looks_in_turn, safe
from posenc_compare.show.setting import short_setting
from posenc_compare.stats.intervals import LEVEL
from posenc_compare.stats.rounding import NOTHING

SHARE = "share "  # of something: how a unit from 0 to 1 begins
WIDE = 50.0  # ratio of largest to smallest from which an axis is logarithmic
ROW, EDGE, WIDTH = 0.135, 1.1, 1.9  # inches: of a scheme, of texts, of a panel at least
BESIDE = 0.75  # of a row, that the dots of several dtypes take
LETTERS, LABELS = 26, 110  # of a line below or above a panel, and of a unit
TITLES = {
    "distinct_share": "distinct codes",
    "nearest_distance_relative": "distance of the nearest two codes",
    "linear_residual": "error of one linear map that shifts all codes by 1",
}


@register_plot(
    "uniqueness",
    order=110,
    measure="uniqueness",
    caption="Whether every position has a code of its own by dtype, or every distance "
    "in float32, and whether one linear map shifts all codes by a position: means over "
    "seeds with their 95% intervals.",
)
def draw_uniqueness(records: Numbers) -> Figure | None:
    """Draw the share of distinct codes by dtype, the nearest two, and the shift.

    Each has a panel, with the same schemes in all. A dot is the mean over seeds, and
    the bar through it its 95 % interval. The legend names the dtypes.
    """
    chosen = [*usable(records, "uniqueness"), *usable(records, "shift_linearity")]
    by_label = looks(records)
    means = means_of(records, chosen, by_label)
    means = means[means["x"].isna() | (means["x"] == 1)]
    means = means.assign(panel=means["quantity"].map(TITLES))
    means = means.dropna(subset=["panel", "mean"])
    means = means.assign(mean=means["mean"].where(means["mean"].abs() > NOTHING, 0.0))
    titles = [title for title in TITLES.values() if title in set(means["panel"])]
    if not titles:
        return None
    order = [*means["scheme"].unique()]
    across = columns_of(WIDTH, len(titles))
    height = ROW * max(3, len(order)) + EDGE
    wrapped = [textwrap.fill(title, LETTERS) for title in titles]
    figure, panels = new_panels(wrapped, across, height, share=False)
    there, names = set(means["case"]), map(safe, records.rows["case"].unique())
    cases = [case for case in names if case and case in there]
    styles = looks_in_turn(cases) | {"": Look("", MIDDLE, "", "o", "")}
    for i, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        own = means[means["panel"] == title]
        some = [case for case in styles if case in set(own["case"])]
        for k, case in enumerate(some):
            dots = own[own["case"] == case]
            down = (k + 0.5) / len(some) - 0.5
            axes.errorbar(
                dots["mean"],
                dots["scheme"].map(order.index) + BESIDE * down,
                xerr=dots["half_width"],
                color=styles[case].colour,
                marker=styles[case].marker,
                linestyle="none",
                elinewidth=0.8,
            )
        axes.set_yticks(range(len(order)), order)
        unit = _value_axis(axes, own["mean"], str(own["unit"].iloc[0]))
        axes.set_xlabel(textwrap.fill(safe(unit, LABELS), LETTERS))
        axes.set(ylabel="", ylim=(len(order) - 0.5, -0.5))
        axes.yaxis.grid(visible=True)
        axes.tick_params(axis="y", length=0, labelleft=i % across == 0)
    entries: dict[str, Artist] = {case: styles[case].dot() for case in cases}
    if means["n"].max() > 1:
        bar = Line2D([], [], color=MIDDLE, linewidth=0.8)
        entries[f"{LEVEL:.0%} interval over seeds"] = bar
    legend_below(figure, entries, title="codes rounded to" if cases else None)
    note_setting(figure, short_setting(chosen))
    return figure


def _value_axis(axes: Axes, values: Frame, unit: str) -> str:
    """Set the scale of an axis; return its unit, with words for the scale."""
    positive = values[values > 0]
    if unit.startswith(SHARE):
        axes.set_xlim(-0.03, 1.03)
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        return unit
    if positive.empty or positive.max() <= WIDE * positive.min():
        axes.set_xlim(0.0, 1.1 * values.max() or 1.0)
        axes.xaxis.set_major_locator(MaxNLocator(3))
        return unit
    ends = positive.min(), positive.max()
    least, most = (math.floor(math.log10(end)) for end in ends)
    zeros = bool((values == 0).any())
    start = 10.0**least
    if zeros:
        axes.set_xscale("symlog", linthresh=start, linscale=0.8)
        axes.axvspan(-0.4 * start, start, color="0.93", linewidth=0, zorder=0)
    else:
        axes.set_xscale("log")
    axes.set_xlim(-0.4 * start if zeros else start, 10.0 ** (most + 1))
    powers = range(least + zeros, most + 2, max(1, (most - least + 3) // 3))
    set_ticks(axes.xaxis, FixedLocator([0.0] * zeros + [10.0**i for i in powers]))
    return unit + (" (logarithmic; linear in grey)" if zeros else " (logarithmic)")
