"""Extrapolation: bits per byte against the test length, and at every position."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.records.record import Record
from posenc_compare.show.frame import Frame
from posenc_compare.show.plots.frames import (
    array_rows,
    in_bits,
    merge_equal,
    rows_of,
    training_length,
)
from posenc_compare.show.plots.lines import Lines, by_family
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, Look, looks
from posenc_compare.show.ranking import one_floor
from posenc_compare.show.setting import short_setting

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
    return draw_families(rows, styles, chosen, "test length (bytes)", ended, floors)


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
    ended = set(reach.index[reach < reach.max()])
    x = "position in the window (bytes)"
    return draw_families(binned(rows), styles, chosen, x, ended, markers=False)


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
    x: str,
    ended: set[str],
    floors: Frame | None = None,
    *,
    markers: bool = True,
) -> Figure:
    """Draw bits over lengths: in one panel, or in one for each family.

    Args:
        rows: `scheme`, `x` and `value` of each seed.
        styles: look of every scheme.
        chosen: records that the rows are from.
        x: name of the x axis.
        ended: schemes, by text, that define no further positions.
        floors: `case`, `x` and `value` of models without a scheme.
        markers: whether to mark the points.
    """
    merged_rows, merged = merge_equal(rows, styles)
    parted, several = by_family(merged_rows, merged)
    page = several or len(merged) > FEW
    lines = Lines(parted, merged, markers=markers, beside=several, page=page)
    lines.length_axis()
    scale = lines.value_axis()
    lines.mark_ends(merged[k] for k in merged if styles[k].text in ended)
    lines.mark_training(map(training_length, chosen))
    if floors is not None:
        _draw_floors(lines, floors)
    lines.finish(x, f"bits per byte{scale}", short_setting(chosen))
    return lines.figure


def _draw_floors(lines: Lines, floors: Frame) -> None:
    """Draw the means of simple models in grey, where the bits of schemes lie."""
    low, high = lines.first.get_ylim()
    means = floors.groupby(["case", "x"])["value"].mean().unstack("x")
    for (case, line), dash in zip(means.iterrows(), GREY * len(means), strict=False):
        if low < line.dropna().iloc[-1] < high:
            look = {"color": MIDDLE, "linewidth": 0.7, "linestyle": dash}
            for axes in lines.panels.values():
                axes.plot(line.index, line, zorder=2, **look)
            lines.entries[str(case)] = Line2D([], [], **look)
    lines.first.set_ylim(low, high)
