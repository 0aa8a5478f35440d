"""Extrapolation: bits per byte against the test length."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from posenc_compare.analysis.records.record import Record
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
from posenc_compare.analysis.show.plots.style import (
    MIDDLE,
    Look,
    looks,
    mark_training,
    power_ticks,
)
from posenc_compare.analysis.show.setting import preset_of, shared_facts

WIDE = 2.0  # ratio of the ends from which the axis of bits is logarithmic
TICKS = (0.5, 0.7, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8)
CLOSE = 0.06  # of the height: nearer names would lie over one another
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
    where all schemes share a panel, the legend says how many it does. A panel of a
    family is as high as its own lines need: what is there to compare with may leave it.
    Grey lines are models without a scheme, where they are in sight.
    """
    styles = looks(records)
    chosen = in_bits(records)
    rows = means_table(chosen, styles)
    floors = rows[(rows["quantity"] == "floor_bits_per_byte") & rows["x"].gt(0)]
    rows = rows[(rows["quantity"] == "bits_per_byte") & rows["x"].gt(0)]
    if rows["value"].isna().all():
        return None
    styles, rows = drawn_once(styles, rows)
    groups = groups_of(styles, rows["scheme"])
    figure, panels = new_panels(groups, one_height=False)
    handles, notes = [], rows[rows["value"].isna()]
    notes = notes.groupby("scheme", sort=False)["note"].first().to_dict()
    for axes, texts in zip(panels, groups.values(), strict=True):
        here = rows[rows["scheme"].isin(texts)]
        curves = here.dropna(subset="value")
        handles.append(draw_lines(axes, curves, styles, markers=True))
        mark_ends(axes, curves, [text for text in notes if text in texts], styles)
        name_axes(axes, rows, chosen)
        if len(panels) > 1:
            _fit_own(axes, here, styles, handles[-1])
        draw_floors(axes, floors)
    common = _say_why(handles[0], notes) if len(panels) == 1 else []
    if len(panels) > 1 and notes:
        common.append(ended("no further positions"))
    add_legends(figure, panels, handles, [*common, *shade(rows)])
    outer_labels(panels, *LABELS)
    if len(panels) == 1:
        _wide_axis(panels[0])
        say_setting(panels[0], chosen)
    return figure


def _wide_axis(axes: Axes) -> None:
    """Make the axis of bits logarithmic where the worst are far above the best."""
    low, high = axes.get_ylim()
    if high > WIDE * low > 0:
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        axes.yaxis.set_major_locator(FixedLocator([t for t in TICKS if low < t < high]))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylabel(f"{LABELS[1]} (logarithmic)")


def say_setting(axes: Axes, chosen: list[Record]) -> None:
    """Say in grey above the axes with which preset networks were trained, and seeds."""
    preset = preset_of(shared_facts([record.spec.setting for record in chosen]))
    seeds = len({record.spec.seed for record in chosen})
    text = f"{f'preset {preset}, ' if preset else ''}n = {seeds}"
    axes.set_title(text, loc="right", color=MIDDLE, fontsize=6)


def draw_floors(axes: Axes, floors: Frame) -> None:
    """Draw the means of simple models in grey, with their names, within the axes."""
    low, high = axes.get_ylim()
    lines = {c: some.groupby("x")["value"].mean() for c, some in floors.groupby("case")}
    above, place = math.inf, 0
    for case, points in sorted(lines.items(), key=lambda line: -line[1].iloc[0]):
        if not low < points.iloc[-1] < high:
            continue
        axes.plot(points.index, points, color=MIDDLE, linewidth=0.7, zorder=2)
        near = above - points.iloc[0] < CLOSE * (high - low)
        place = (place + 1) % len(points) if near else 0  # of the name, along the line
        above = points.iloc[0]
        axes.annotate(
            str(case),
            (points.index[place], points.iloc[place]),
            (2, 1.5),
            textcoords="offset points",
            color=MIDDLE,
            fontsize=6,
            zorder=2,
        )
    axes.set_ylim(low, high)


def _fit_own(
    axes: Axes, rows: Frame, styles: dict[str, Look], handles: list[Line2D]
) -> None:
    """Fit the height to a family's own lines, and say which others are out of sight."""
    guests = {look.text for look in styles.values() if look.family == "none"}
    own = rows[~rows["scheme"].isin(guests)].dropna(subset="value")
    if own.empty:
        return
    reach = rows.groupby("scheme")["value"].agg(["min", "max"])
    width = own["half_width"].fillna(0)
    low, high = (own["value"] - width).min(), (own["value"] + width).max()
    edge = 0.05 * (high - low) or 0.1
    low, high = low - edge, high + edge
    axes.set_ylim(low, high)
    for handle in handles:
        text = str(handle.get_label())
        if text in guests and reach.loc[text, "min"] > high:
            handle.set_label(f"{text} (above)")
        elif text in guests and reach.loc[text, "max"] < low:
            handle.set_label(f"{text} (below)")


def name_axes(axes: Axes, rows: Frame, chosen: list[Record]) -> None:
    """Give the axes the scales of test lengths and bits, and mark the training."""
    power_ticks(axes, rows["x"].min(), rows["x"].max())
    mark_training(axes, map(training_length, chosen))
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)


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
