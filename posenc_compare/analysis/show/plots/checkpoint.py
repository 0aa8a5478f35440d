"""Checkpoint: a trained model, read at each length under every scaling it has."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.alike import drawn_once
from posenc_compare.analysis.show.plots.extrapolation import wide_axis
from posenc_compare.analysis.show.plots.frames import Frame, means_table, usable
from posenc_compare.analysis.show.plots.lines import draw_lines, shade
from posenc_compare.analysis.show.plots.panels import (
    add_legends,
    new_panels,
    outer_labels,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.scalings import PLAIN
from posenc_compare.analysis.show.plots.style import (
    MIDDLE,
    looks,
    looks_of,
    mark_training,
    power_ticks,
)

STATIC = "static "  # before the rules that take the factor of the longest length
TITLES = {False: "factor of each length", True: "factor of the longest"}
LEVEL = "sliding windows of the trained length"


@register_plot(
    "checkpoint",
    order=22,
    measure="checkpoint",
    caption="Bits per byte of a checkpoint against the test length, read under every "
    "scaling: means over windows of the text with their 95% intervals. Where the axis "
    "says so, those of windows of the trained length that slide are taken off.",
)
def draw_checkpoint(records: list[Record]) -> Figure | None:
    """Draw the mean over windows: factors of each length, and of the longest one.

    Where one length alone is longer than the trained one, both are the same there, and
    the second panel stands alone. Windows of the trained length that slide over the
    tokens of the longest one are where heights count from, on a logarithmic axis; where
    a curve comes down to them, or there are several checkpoints, their mean is a dotted
    grey line instead.
    """
    chosen = usable(records, "checkpoint")
    rows = means_table(chosen, looks(records)).dropna(subset="value")
    plain = rows[rows["quantity"] == "bits_per_byte"].assign(case=PLAIN)
    read = rows[rows["quantity"] == "read_bits_per_byte"]
    if plain.empty:
        return None
    static = read["case"].str.startswith(STATIC)
    longest = read[read["x"] == plain["x"].max()]
    held = read[static].assign(case=read["case"].str.removeprefix(STATIC))
    parts: dict[bool, Frame] = {
        False: pd.concat([plain, read[~static]]),
        True: pd.concat([plain, held, longest]),
    }
    cases = [PLAIN, *read[~static]["case"].unique()]
    families = ["none" if case == PLAIN else "" for case in cases]  # it comes first
    colours = looks_of(dict(zip(cases, families, strict=True)))
    each = read[~static]["x"].nunique() > 1 or not static.any()
    drawn = {False: each, True: static.any()}
    parts = {which: part for which, part in parts.items() if drawn[which]}
    figure, panels = new_panels({TITLES[which]: cases for which in parts})
    level = rows[rows["quantity"] == "sliding_bits_per_byte"]
    curved = pd.concat(parts.values())
    floor = level["value"].mean()  # nan where nothing slides
    ends = curved["value"] - curved["half_width"].fillna(0)
    above = len(level) == 1 and ends.min() > floor  # several have no level in common
    handles, common = [], []
    for axes, part in zip(panels, parts.values(), strict=False):
        curves = part.assign(scheme=part["case"]).drop(columns=["quantity", "case"])
        curves["value"] -= floor if above else 0
        own, curves = drawn_once(colours, curves)
        handles.append(draw_lines(axes, curves, own, markers=True))
        common = _named(axes, rows, chosen, level.head(0) if above else level)
    bits = _excess_axis(panels[0]) if above else wide_axis(panels[0])
    add_legends(figure, panels, handles, [*common, *shade(rows)])
    outer_labels(panels, "test length (tokens)", bits)
    say_setting(figure, chosen)
    return figure


def _named(axes: Axes, rows: Frame, chosen: list[Record], level: Frame) -> list[Line2D]:
    """Give the axes their scale; return legend entries of what is no curve."""
    lengths = rows["x"].dropna()
    power_ticks(axes, lengths.min(), lengths.max())
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    trained = {float(str(r.spec.setting["trained"])) for r in chosen}
    found = [mark_training(axes, trained)]
    if not level.empty:
        line = {"color": MIDDLE, "linestyle": ":", "linewidth": 1.0}
        axes.axhline(float(level["value"].mean()), zorder=1, **line)
        found.append(Line2D([], [], label=LEVEL, **line))
    return found


def _excess_axis(axes: Axes) -> str:
    """Make the axis logarithmic, with two or three ticks a decade; return its label."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    return f"bits per byte above\n{LEVEL}"
