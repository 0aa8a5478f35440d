"""Tasks: accuracy of trained networks against the test length, a panel for each."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.records.record import Record
from posenc_compare.show.plots.frames import Frame, rows_of, scored, training_length
from posenc_compare.show.plots.lines import Lines
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, looks, safe

FLOOR = {"color": MIDDLE, "linewidth": 0.8, "linestyle": ":"}


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
    tasks = scored(records, "accuracy")
    if not tasks:
        return None
    styles = looks(records)
    parts = []
    for task, some in tasks.items():
        part = rows_of(some, styles)
        lengths = part["x"] / min(map(training_length, some))
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
            axes.plot(floor[task].index, floor[task], **FLOOR)
    if len(floor):
        lines.entries["constant answer"] = Line2D([], [], **FLOOR)
    every = [one for some in tasks.values() for one in some]
    lines.finish("test length\n(training lengths)", "accuracy", every)
    return lines.figure
