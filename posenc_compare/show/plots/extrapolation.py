"""Scores of trained networks against the test length, and at every position."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.records.record import Record
from posenc_compare.show.plots import frames
from posenc_compare.show.plots.frames import Frame
from posenc_compare.show.plots.lines import Lines
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, looks, safe

BITS, FLOORS = "bits_per_byte", "floor_bits_per_byte"
BINS_PER_OCTAVE = 2
FIRST = 8  # positions in the first bin: fewer windows say little of each
GREY = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))  # of simple models
CONSTANT = {"color": MIDDLE, "linewidth": 0.8, "linestyle": ":"}


@register_plot(
    "extrapolation",
    order=10,
    measure="extrapolation",
    caption="Bits per byte against the test length: means over seeds with their 95% "
    "intervals. Of many schemes, a panel for each family, with the others in pale "
    "grey. Dark grey: n-gram models of the same training bytes.",
)
def draw_extrapolation(records: list[Record]) -> Figure | None:
    """Draw the score of each scheme by test length.

    A line that ends at a bar belongs to a scheme that defines no further positions.
    All panels have one scale of bits, so that families can be compared.
    """
    chosen = frames.in_bits(records)
    every = frames.rows_of(chosen, looks(records))
    every = every[every["x"] > 0]
    rows = every[every["quantity"] == BITS]
    if rows["value"].isna().all() or rows["x"].nunique() < 2:
        return None
    floors = every[every["quantity"] == FLOORS]
    seeds = floors.groupby(["case", "x", "seed"])["value"]
    if not (seeds.nunique() == 1).all():  # trained on several texts
        floors = floors[:0]
    ended = set(rows.loc[rows["value"].isna(), "scheme"])
    return _draw(rows, records, "test length (bytes)", ended, floors)


@register_plot(
    "position_bits",
    order=30,
    measure="extrapolation",
    caption="Bits per byte at every position of the longest window: means over seeds "
    "with their 95% intervals.",
)
def draw_position_bits(records: list[Record]) -> Figure | None:
    """Draw the loss of each scheme by position in the window, averaged over seeds.

    A line that ends at a bar belongs to a scheme that defines no further positions; it
    was tested in shorter windows.
    """
    rows = frames.array_rows(frames.in_bits(records), "position_bits", looks(records))
    if rows["value"].isna().all():
        return None
    reach = rows.groupby("scheme")["x"].max()
    ended = set(reach.index[reach < reach.max()])
    return _draw(binned(rows), records, "position in the window (bytes)", ended)


@register_plot(
    "tasks",
    order=15,
    measure="extrapolation",
    caption="Accuracy on each task against the test length in training lengths: means "
    "over seeds with their 95% intervals. Dotted: a model that always gives the same "
    "answer.",
)
def draw_tasks(records: list[Record]) -> Figure | None:
    """Draw the accuracy on each task by test length."""
    tasks = frames.scored(records, "accuracy")
    if not tasks:
        return None
    styles = looks(records)
    parts = []
    for task, some in tasks.items():
        part = frames.rows_of(some, styles)
        lengths = part["x"] / min(map(frames.training_length, some))
        parts.append(part.assign(x=lengths, panel=safe(task)))
    rows: Frame = pd.concat(parts)
    rows = rows[rows["x"] > 0]
    scores, floors = (
        rows[rows["quantity"] == name] for name in ("accuracy", "floor_accuracy")
    )
    height = 1.3 if len(tasks) > 2 else 2.0  # inches
    lines = Lines(scores, styles, columns=3, width=1.7, height=height)
    lines.length_axis()
    lines.axes[0].set_ylim(-0.03, 1.03)
    floor: Frame = floors.groupby(["panel", "x"])["value"].mean()
    for axes, task, _ in lines.facets:
        if task in floor:
            axes.plot(floor[task].index, floor[task], **CONSTANT)
    if len(floor):
        lines.entries["constant answer"] = Line2D([], [], **CONSTANT)
    every = [one for some in tasks.values() for one in some]
    lines.finish("test length\n(training lengths)", "accuracy", every)
    return lines.figure


def binned(rows: Frame) -> Frame:
    """Return the mean of each bin of positions, of each scheme and seed.

    Rows have `scheme`, `seed`, `x` from 0 on, and `value`, bits at each position. The
    new `x` is the geometric mean of the positions, from 1 on.
    """
    position = rows["x"] + 1
    octave = np.log2(position.clip(lower=FIRST)) * BINS_PER_OCTAVE
    parts = rows.assign(bin=np.ceil(octave - 1e-9), x=np.log(position))
    keys = ["scheme", "seed", "bin"]
    means = parts.groupby(keys, sort=False, as_index=False)[["x", "value"]].mean()
    return means.assign(x=np.exp(means["x"])).drop(columns="bin")


def _draw(
    rows: Frame,
    records: list[Record],
    x: str,
    ended: set[str],
    floors: Frame | None = None,
) -> Figure:
    """Draw bits over lengths, and the lengths of training.

    Bins of positions have no floors, and no markers.
    """
    styles, chosen = looks(records), frames.in_bits(records)
    merged_rows, merged = frames.merge_equal(rows, styles)
    lines = Lines(merged_rows.assign(panel=""), merged, markers=floors is not None)
    lines.length_axis()
    scale = lines.value_axis()
    lines.mark_ends(merged[k].text for k in merged if styles[k].text in ended)
    lines.mark_training(chosen)
    if floors is not None:
        _draw_floors(lines, floors)
    lines.finish(x, f"bits per byte{scale}", chosen)
    return lines.figure


def _draw_floors(lines: Lines, floors: Frame) -> None:
    """Draw the means of simple models in grey, where the bits of schemes lie."""
    low, high = lines.axes[0].get_ylim()
    means = floors.groupby(["case", "x"])["value"].mean().unstack("x")
    below = []
    for (case, line), dash in zip(means.iterrows(), GREY * len(means), strict=False):
        known = line.dropna()
        if ((low < known) & (known < high)).any():
            look = {"color": MIDDLE, "linewidth": 0.7, "linestyle": dash}
            for axes in lines.axes:
                axes.plot(line.index, line, zorder=2, **look)
            lines.entries[str(case)] = Line2D([], [], **look)
        elif len(known) and (known <= low).all():
            below.append(f"{case} ({known.iloc[-1]:.2f})")
    if below:  # which a legend names, so that nothing is hidden
        label = f"below the axis: {', '.join(below)}"
        lines.entries[label] = Line2D([], [], linestyle="none")
    lines.axes[0].set_ylim(low, high)
