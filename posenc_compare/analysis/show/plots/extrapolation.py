"""Extrapolation: bits per byte against the test length, and at every position."""

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.floors import one_floor
from posenc_compare.analysis.show.plots.frames import (
    Frame,
    array_rows,
    in_bits,
    merge_equal,
    rows_of,
    training_length,
)
from posenc_compare.analysis.show.plots.panels import (
    band_entry,
    by_family,
    draw_lines,
    legend_below,
    legend_beside,
    length_axis,
    mark_ends,
    mark_training,
    name_axes,
    new_panels,
    note_setting,
    value_axis,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.style import MIDDLE, Look, looks
from posenc_compare.analysis.show.setting import short_setting

BITS, FLOORS = "bits_per_byte", "floor_bits_per_byte"
BINS_PER_OCTAVE = 2
FIRST = 8  # positions in the first bin: fewer windows say little of each
FEW = 6  # schemes whose lines fit into one column
GREY = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))  # of simple models


@register_plot(
    "extrapolation",
    order=10,
    measure="extrapolation",
    caption="Bits per byte against the test length: means over seeds with their 95% "
    "intervals. Grey: n-gram models of the same training bytes.",
)
def draw_extrapolation(records: list[Record]) -> Figure | None:
    """Draw a line for each scheme; of many schemes, a panel for each family.

    A line that ends at a bar belongs to a scheme that defines no further positions.
    All panels have one scale of bits, so that families can be compared.
    """
    styles, chosen = looks(records), in_bits(records)
    every = rows_of(chosen, styles)
    every = every[every["x"] > 0]
    rows = every[every["quantity"] == BITS]
    if rows["value"].isna().all():
        return None
    ended = set(rows.loc[rows["value"].isna(), "scheme"])
    floors = every[every["quantity"] == FLOORS] if one_floor(chosen, FLOORS) else None
    return draw_families(
        rows,
        styles,
        chosen,
        ended=ended,
        floors=floors,
        names=("test length (bytes)", "bits per byte"),
    )


@register_plot(
    "position_bits",
    order=30,
    measure="extrapolation",
    caption="Bits per byte at every position of the longest window: means over seeds "
    "with their 95% intervals.",
)
def draw_position_bits(records: list[Record]) -> Figure | None:
    """Draw the mean over seeds in bins of equal width on the logarithmic axis.

    A line that ends at a bar belongs to a scheme that defines no further positions; it
    was tested in shorter windows.
    """
    styles, chosen = looks(records), in_bits(records)
    rows = array_rows(chosen, "position_bits", styles)
    if rows["value"].isna().all():
        return None
    reach = rows.groupby("scheme")["x"].max()
    return draw_families(
        binned(rows),
        styles,
        chosen,
        ended=set(reach.index[reach < reach.max()]),
        names=("position in the window (bytes)", "bits per byte"),
        markers=False,
    )


def binned(rows: Frame) -> Frame:
    """Return the mean of each bin of positions, of each scheme and seed.

    Args:
        rows: `scheme`, `seed`, `x` from 0 on, and `value`, bits at each position.

    Returns:
        The same columns; `x` is the geometric mean of the positions, from 1 on.
    """
    position = rows["x"] + 1
    octave = np.log2(position.clip(lower=FIRST)) * BINS_PER_OCTAVE
    parts = rows.assign(bin=np.ceil(octave - 1e-9), x=np.log(position))
    keys = ["scheme", "seed", "bin"]
    means = parts.groupby(keys, sort=False, as_index=False)[["x", "value"]].mean()
    return means.assign(x=np.exp(means["x"])).drop(columns="bin")


def draw_families(
    rows: Frame,
    styles: dict[str, Look],
    chosen: list[Record],
    *,
    ended: set[str],
    names: tuple[str, str],
    floors: Frame | None = None,
    markers: bool = True,
) -> Figure:
    """Draw lines over lengths: in one panel, or in one for each family.

    Args:
        rows: `scheme`, `x` and `value` of each seed.
        styles: look of every scheme.
        chosen: records that the rows are from.
        ended: schemes, by text, that define no further positions.
        names: of the axes.
        floors: `case`, `x` and `value` of models without a scheme.
        markers: whether to mark the points.
    """
    ends = {look.text: label for label, look in styles.items() if look.text in ended}
    rows, merged = merge_equal(rows, styles)
    ended = {look.text for label, look in merged.items() if label in ends.values()}
    groups = by_family(merged)
    rows = pd.concat(
        rows[rows["scheme"].isin(texts)].assign(panel=title)
        for title, texts in groups.items()
    )
    single = len(groups) == 1
    figure, axes = new_panels([*groups], page=not single or len(merged) > FEW)
    panels = dict(zip(groups, axes, strict=True))
    entries: dict[str, Artist] = {}
    for title, panel in panels.items():
        own = draw_lines(panel, rows[rows["panel"] == title], merged, markers=markers)
        if single:
            entries |= own
        else:
            legend_beside(panel, own)
    length_axis(axes[0])
    scale = value_axis(axes[0])
    entries |= mark_ends(panels, rows, merged, ended)
    entries |= mark_training(axes, map(training_length, chosen))
    entries |= band_entry(rows)
    for panel in axes:
        entries |= _draw_floors(panel, floors)
    legend_below(figure, entries)
    name_axes(axes, names[0], names[1] + scale)
    note_setting(figure, short_setting(chosen))
    return figure


def _draw_floors(axes: Axes, floors: Frame | None) -> dict[str, Artist]:
    """Draw the means of simple models in grey; return their legend entries."""
    if floors is None:
        return {}
    low, high = axes.get_ylim()
    found: dict[str, Artist] = {}
    for (case, points), dash in zip(
        floors.groupby("case"), GREY * len(floors), strict=False
    ):
        line = points.groupby("x")["value"].mean()
        if low < line.iloc[-1] < high:
            axes.plot(line.index, line, color=MIDDLE, lw=0.7, ls=dash, zorder=2)
            found[str(case)] = Line2D([], [], color=MIDDLE, lw=0.7, ls=dash)
    axes.set_ylim(low, high)
    return found
