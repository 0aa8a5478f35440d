"""Scores of trained networks against the test length."""

from typing import Any

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
READ = ("corpus_sha256", "split", "length", "batch", "steps")  # which bytes floors read
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
    styles, chosen = looks(records), frames.in_bits(records)
    every = frames.rows_of(chosen, styles)
    every = every[every["x"] > 0]
    rows = every[every["quantity"] == BITS]
    if rows["value"].isna().all() or rows["x"].nunique() < 2:
        return None
    floors = every[every["quantity"] == FLOORS]
    read = {tuple(map(one.spec.setting.get, READ)) for one in chosen}
    if len(read) > 1 or len(_differing(floors, ["case", "x"])):
        floors = floors[:0]
    ended = set(rows.loc[rows["value"].isna(), "scheme"])
    merged_rows, merged = frames.merge_equal(rows, styles)
    lines = Lines(merged_rows.assign(panel=""), merged)
    lines.length_axis()
    scale = lines.value_axis()
    lines.mark_ends(merged[k].text for k in merged if styles[k].text in ended)
    lines.mark_training(chosen)
    _draw_floors(lines, floors)
    lines.finish("test length (bytes)", f"bits per byte{scale}", chosen)
    return lines.figure


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
        trained = {styles[one.label].text: frames.training_length(one) for one in some}
        part = frames.rows_of(some, styles)
        lengths = part["x"] / part["scheme"].map(trained)
        parts.append(part.assign(x=lengths, panel=safe(task)))
    rows: Frame = pd.concat(parts)
    rows = rows[rows["x"] > 0]
    scores, floors = (
        rows[rows["quantity"] == name] for name in ("accuracy", "floor_accuracy")
    )
    size: dict[str, Any] = {"columns": 3, "width": 1.7}  # in inches
    size |= {"height": 1.3} if len(tasks) > 2 else {}
    lines = Lines(scores, styles, **(size if len(tasks) > 1 else {}))
    lines.length_axis()
    lines.axes[0].set_ylim(-0.03, 1.03)
    floors = floors[~floors["panel"].isin(_differing(floors, ["panel", "x"]))]
    floor: Frame = floors.groupby(["panel", "x"])["value"].mean()
    for axes, task, _ in lines.facets:
        if task in floor:
            axes.plot(floor[task].index, floor[task], **CONSTANT)
    if len(floor):
        lines.entries["constant answer"] = Line2D([], [], **CONSTANT)
    every = [one for some in tasks.values() for one in some]
    lines.finish("test length /\ntraining length", "accuracy", every)
    return lines.figure


def _differing(floors: Frame, by: list[str]) -> Frame:
    """Return the first of `by` where a seed has several floors, of several settings."""
    counts = floors.groupby([*by, "seed"])["value"].nunique()
    return counts[counts > 1].index.get_level_values(by[0])


def _draw_floors(lines: Lines, floors: Frame) -> None:
    """Draw the means of simple models in grey, where the bits of schemes lie."""
    low, high = lines.axes[0].get_ylim()
    means = floors.groupby(["case", "x"])["value"].mean().unstack("x")
    off: dict[str, list[str]] = {"below": [], "above": []}
    for (case, line), dash in zip(means.iterrows(), GREY * len(means), strict=False):
        known = line.dropna()
        if ((low < known) & (known < high)).any():
            look = {"color": MIDDLE, "linewidth": 0.7, "linestyle": dash}
            for axes in lines.axes:
                axes.plot(line.index, line, zorder=2, **look)
            lines.entries[str(case)] = Line2D([], [], **look)
        elif len(known):
            side = "below" if known.iloc[-1] <= low else "above"
            off[side].append(f"{case} ({known.iloc[-1]:.2f})")
    for side, names in off.items():  # which a legend names, so that nothing is hidden
        if names:
            label = f"{side} the axis: {', '.join(names)}"
            lines.entries[label] = Line2D([], [], linestyle="none")
    lines.axes[0].set_ylim(low, high)
