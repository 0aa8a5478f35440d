"""Extrapolation: bits per byte against the test length."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.floors import one_floor
from posenc_compare.analysis.show.plots.alike import drawn_once
from posenc_compare.analysis.show.plots.frames import (
    Frame,
    in_bits,
    means_table,
    training_length,
)
from posenc_compare.analysis.show.plots.lines import (
    draw_lines,
    ended,
    mark_ends,
    shade,
)
from posenc_compare.analysis.show.plots.panels import (
    add_legends,
    groups_of,
    new_panels,
    outer_labels,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import (
    MIDDLE,
    looks,
    mark_training,
    power_ticks,
)

WIDE = 2.0  # ratio of the ends from which the axis of bits is logarithmic
TICKS = (0.5, 0.7, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8)
APART = 0.07  # of the height: nearer names would lie over one another
FLOORS = "floor_bits_per_byte"
NAME = 0.3  # inches of the names of floors
LABELS = ("test length (bytes)", "bits per byte")


@register_plot(
    "extrapolation",
    order=10,
    measure="extrapolation",
    caption="Bits per byte against the test length: means over seeds with their 95% "
    "intervals. Grey: n-gram models of the same training bytes.",
)
def draw_extrapolation(records: list[Record]) -> Figure | None:
    """Draw the mean over seeds as a line and its interval as a shade.

    A line that ends at a bar belongs to a scheme that defines no further positions;
    where all schemes share a panel, the legend says how many it does. All panels have
    one scale of bits, so that families can be compared. Grey lines are models without
    a scheme, where they are in sight.
    """
    styles = looks(records)
    chosen = in_bits(records)
    rows = means_table(chosen, styles)
    floors = rows[(rows["quantity"] == FLOORS) & rows["x"].gt(0)]
    rows = rows[(rows["quantity"] == "bits_per_byte") & rows["x"].gt(0)]
    if rows["value"].isna().all():
        return None
    styles, rows = drawn_once(styles, rows)
    groups = groups_of(styles, rows["scheme"])
    figure, panels = new_panels(groups)
    handles, notes = [], rows[rows["value"].isna()]
    notes = notes.groupby("scheme", sort=False)["note"].first().to_dict()
    for axes, texts in zip(panels, groups.values(), strict=True):
        curves = rows[rows["scheme"].isin(texts)].dropna(subset="value")
        handles.append(draw_lines(axes, curves, styles, markers=True))
        mark_ends(axes, curves, [text for text in notes if text in texts], styles)
    trained = [name_axes(axes, rows, chosen) for axes in panels]
    common = _say_why(handles[0], notes) if len(panels) == 1 else []
    if len(panels) > 1 and notes:
        common.append(ended("no further positions"))
    bits = wide_axis(panels[0])
    same = one_floor(chosen, FLOORS)  # else there would be too many lines
    named = [draw_floors(axes, floors) for axes in panels if same]
    add_legends(
        figure,
        panels,
        handles,
        [*common, *trained[:1], *shade(rows)],
        room=NAME if any(named) else 0,
    )
    outer_labels(panels, LABELS[0], bits)
    say_setting(figure, chosen)
    return figure


def wide_axis(axes: Axes) -> str:
    """Return the label of the axis of bits; make it logarithmic where it is wide.

    It is so where the worst are far above the best, for all panels that share it.
    """
    low, high = axes.get_ylim()
    if not high > WIDE * low > 0:
        return LABELS[1]
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator([t for t in TICKS if low < t < high]))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    return f"{LABELS[1]} (logarithmic)"


def draw_floors(axes: Axes, floors: Frame) -> list[str]:
    """Draw the means of simple models in grey, within the axes, and return their names.

    A name stands at the right of its line; those of near lines stand apart.
    """
    low, high = axes.get_ylim()
    lines = {c: some.groupby("x")["value"].mean() for c, some in floors.groupby("case")}
    drawn, place = [], -1.0
    for case, points in sorted(lines.items(), key=lambda line: line[1].iloc[-1]):
        end = points.iloc[-1]
        if not low < end < high:
            continue
        axes.plot(points.index, points, color=MIDDLE, linewidth=0.7, zorder=2)
        ((_, height),) = axes.transLimits.transform(
            axes.transScale.transform([(points.index[-1], end)])
        )
        place = max(height, place + APART)
        axes.annotate(
            str(case),
            (1, place),
            (2, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            color=MIDDLE,
            fontsize=6,
        )
        drawn.append(str(case))
    axes.set_ylim(low, high)
    return drawn


def name_axes(axes: Axes, rows: Frame, chosen: list[Record]) -> Line2D:
    """Give the axes the scale of test lengths; return the legend entry of training."""
    power_ticks(axes, rows["x"].min(), rows["x"].max())
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    return mark_training(axes, map(training_length, chosen))


def _say_why(handles: list[Line2D], notes: dict[str, str]) -> list[Line2D]:
    """Add to legend entries why a line ends; return one for all if all agree."""
    shown = {text: note or "not defined" for text, note in notes.items()}
    drawn = {str(handle.get_label()): handle for handle in handles}
    if len(set(shown.values())) == 1 and shown.keys() <= drawn.keys():
        return [ended(next(iter(shown.values())))]
    more = []
    for text, note in shown.items():
        if text in drawn:
            drawn[text].set_label(f"{text} ({note})")
        else:
            more.append(Line2D([], [], linestyle="", label=f"{text} ({note})"))
    return more
