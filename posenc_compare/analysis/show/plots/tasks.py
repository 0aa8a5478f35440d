"""Tasks: accuracy of trained networks against the test length, a panel for each."""

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import rows_of, scored, training_length
from posenc_compare.analysis.show.plots.panels import (
    band_entry,
    draw_lines,
    legend_below,
    length_axis,
    name_axes,
    new_panels,
    note_setting,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.style import MIDDLE, looks, safe
from posenc_compare.analysis.show.setting import short_setting

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
    """Draw a panel for each task that is scored by accuracy, with a line per scheme."""
    tasks = scored(records, "accuracy")
    if not tasks:
        return None
    styles = looks(records)
    titles = [safe(task) for task in tasks]
    figure, panels = new_panels(titles, columns=3, width=1.7, height=1.6)
    entries: dict[str, Artist] = {}
    bands: dict[str, Artist] = {}
    for axes, some in zip(panels, tasks.values(), strict=True):
        rows = rows_of(some, styles)
        rows = rows.assign(x=rows["x"] / min(map(training_length, some)))
        rows = rows[rows["x"] > 0]
        floor = rows[rows["quantity"] == "floor_accuracy"].groupby("x")["value"].mean()
        axes.plot(floor.index, floor, **FLOOR)
        entries |= draw_lines(axes, rows[rows["quantity"] == "accuracy"], styles)
        bands |= band_entry(rows)
    length_axis(panels[0])
    panels[0].set_ylim(-0.03, 1.03)
    order = [look.text for look in styles.values() if look.text in entries]
    legend_below(
        figure,
        {text: entries[text] for text in order}
        | {"constant answer": Line2D([], [], **FLOOR)}
        | bands,
    )
    name_axes(panels, "test length (training lengths)", "accuracy")
    note_setting(
        figure, short_setting([one for some in tasks.values() for one in some])
    )
    return figure
