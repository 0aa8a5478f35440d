"""Tasks: accuracy of trained networks against the test length, a panel for each."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import (
    means_table,
    scored,
    training_length,
)
from posenc_compare.analysis.show.plots.lines import draw_lines, shade
from posenc_compare.analysis.show.plots.panels import outer_labels
from posenc_compare.analysis.show.plots.paper import across, row_height
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import (
    MIDDLE,
    PAGE,
    Look,
    add_legend,
    looks,
    new_figure,
    safe,
)

MOST = 3  # panels side by side
WIDTH, HEIGHT = 1.6, 1.5  # inches of each, at least
FLOOR = {"color": MIDDLE, "linewidth": 0.7, "linestyle": (0, (1, 1.5))}


@register_plot(
    "tasks",
    order=15,
    measure="extrapolation",
    caption="Accuracy on each task against the test length in training lengths: means "
    "over seeds with their 95% intervals. Dotted: a model that always gives the same "
    "answer.",
)
def draw_tasks(records: list[Record]) -> Figure | None:
    """Draw a panel for each task that is scored by accuracy, with a line per scheme."""
    tasks = scored(records, "accuracy")
    if not tasks:
        return None
    styles = looks(records)
    columns = across(WIDTH, min(MOST, len(tasks)))
    down = -(-len(tasks) // columns)
    figure = new_figure(PAGE, row_height(HEIGHT, down) * down + 0.2)
    grid = figure.subplots(down, columns, sharex=True, sharey=True, squeeze=False)
    drawn: dict[str, Line2D] = {}
    for axes, (task, some) in zip(grid.flat, tasks.items(), strict=False):
        for handle in _draw(axes, some, styles):
            drawn.setdefault(str(handle.get_label()), handle)
        axes.set_title(safe(task), loc="right")
    for axes in grid.flat[len(tasks) :]:
        axes.remove()
    outer_labels(figure.axes, "test length\n(training lengths)", "accuracy")
    every = [record for some in tasks.values() for record in some]
    handles = [drawn[look.text] for look in styles.values() if look.text in drawn]
    add_legend(
        figure,
        [
            *handles,
            Line2D([], [], label="constant answer", **FLOOR),
            *shade(means_table(every, styles)),
        ],
    )
    say_setting(figure, every)
    return figure


def _draw(axes: Axes, records: list[Record], styles: dict[str, Look]) -> list[Line2D]:
    """Draw one task and return the handles of its lines."""
    rows = means_table(records, styles)
    rows = rows[rows["x"].gt(0)]
    rows = rows.assign(x=rows["x"] / min(map(training_length, records)))
    floor = rows[rows["quantity"] == "floor_accuracy"].groupby("x")["value"].mean()
    axes.plot(floor.index, floor, **FLOOR)
    curves = rows[rows["quantity"] == "accuracy"]
    handles = draw_lines(axes, curves.dropna(subset="value"), styles, markers=True)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(rows["x"].unique())))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-0.03, 1.03)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    return handles
