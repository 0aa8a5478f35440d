"""Dot plots: schemes down, numbers across, one panel for each quantity."""

import math
import textwrap
from collections.abc import Mapping, Sequence

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from posenc_compare.records.record import Record
from posenc_compare.show.plots.frames import Frame, interval, rows_of, usable
from posenc_compare.show.plots.panels import (
    legend_below,
    new_panels,
    note_setting,
)
from posenc_compare.show.plots.paper import PAGE, columns_of, paper_width
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import (
    MIDDLE,
    Look,
    looks,
    looks_in_turn,
    safe,
)
from posenc_compare.show.setting import short_setting
from posenc_compare.stats.intervals import LEVEL
from posenc_compare.stats.rounding import NOTHING

SHARE = "share "  # of something: how a unit from 0 to 1 begins
WIDE = 50.0  # ratio of largest to smallest from which an axis is logarithmic
ROW, LINE, EDGE = 0.125, 0.12, 0.3  # inches: of a scheme, of text, and of ticks
WIDTH, NAMES = 2.0, 1.15  # inches: of a panel at least, of the names of schemes
LABELS = 110  # characters of a unit
TITLES = {
    "distinct_share": "distinct codes",
    "nearest_distance_relative": "distance of the nearest two codes",
    "linear_residual": "error of one linear map that shifts all codes by 1",
}
ROTATED = ("query", "key")


@register_plot(
    "uniqueness",
    order=110,
    measure="uniqueness",
    caption="Whether every position or distance has a code of its own, and whether one "
    "linear map shifts all codes by a position: means over seeds with their 95% "
    "intervals.",
)
def draw_uniqueness(records: list[Record]) -> Figure | None:
    """Draw the share of distinct codes by dtype, the nearest two, and the shift."""
    chosen = [*usable(records, "uniqueness"), *usable(records, "shift_linearity")]
    rows = rows_of(chosen, looks(records))
    rows = rows[rows["x"].isna() | (rows["x"] == 1)]
    panels = {title: rows[rows["quantity"] == name] for name, title in TITLES.items()}
    return draw_dots(panels, chosen, "codes rounded to")


@register_plot(
    "perturbation",
    order=100,
    measure="perturbation",
    caption="How much each scheme changes what it is applied to, for the schemes that "
    "change it: means over seeds with their 95% intervals.",
)
def draw_perturbation(records: list[Record]) -> Figure | None:
    """Draw what schemes do to tokens, to queries and keys, and to logits.

    A scheme stands in the panels of what it changes, and nowhere else.
    """
    chosen = usable(records, "perturbation")
    rows = rows_of(chosen, looks(records))
    size = rows[rows["quantity"] == "relative_size"]
    rotated = size["case"].isin(ROTATED)
    words = "tokens " + size["case"].str.replace("^2", "\N{SUPERSCRIPT TWO}")
    words = words.str.replace("sqrt(d)", "\N{SQUARE ROOT}d")
    panels = {
        "added to tokens": size.assign(case=words)[~rotated],
        "change of queries and keys": size[rotated],
        "bias in logits": rows[rows["quantity"] == "bias_share"],
    }
    return draw_dots({title: _acting(own) for title, own in panels.items()}, chosen)


def _acting(rows: Frame) -> Frame:
    """Return the rows of schemes that change something."""
    acting = rows.loc[rows["value"].abs() > NOTHING, "scheme"].unique()
    return rows[rows["scheme"].isin(acting)]


def draw_dots(
    panels: Mapping[str, Frame], records: list[Record], legend: str = ""
) -> Figure | None:
    """Draw a panel for each quantity, with the schemes that have it.

    A dot is the mean over seeds of a case, and the bar through it its 95 % interval.

    Args:
        panels: by title: `scheme`, `case`, `unit` and `value` of each seed, the schemes
            in order.
        records: that they are from.
        legend: what the cases are.

    Returns:
        None if there is nothing to draw.
    """
    panels = {title: rows.dropna(subset="value") for title, rows in panels.items()}
    panels = {title: rows for title, rows in panels.items() if len(rows)}
    if not panels:
        return None
    every: Frame = pd.concat(panels.values())
    schemes = {title: [*rows["scheme"].unique()] for title, rows in panels.items()}
    most = max(map(len, schemes.values()))
    room = paper_width(PAGE) / columns_of(WIDTH, len(panels)) - NAMES
    units = {title: str(rows["unit"].iloc[0]) for title, rows in panels.items()}
    chars = max(12, int(17 * room))
    high = max(len(textwrap.wrap(text, chars)) for text in [*units.values(), *panels])
    height = ROW * max(3, most) + LINE * (2 * high + 2) + EDGE
    figure, places = new_panels(
        [""] * len(panels), columns=3, width=WIDTH, height=height, share=False
    )
    cases = [case for case in every["case"].unique() if case]
    styles = looks_in_turn(cases) | {"": Look("", MIDDLE, "", "o", "")}
    palette = {case: look.colour for case, look in styles.items()}
    left: list[str] = []
    for axes, (title, rows) in zip(places, panels.items(), strict=True):
        own = [*rows["case"].unique()]
        value = rows["value"].where(rows["value"].abs() > NOTHING, 0.0)
        sns.pointplot(
            rows.assign(value=value),
            x="value",
            y="scheme",
            order=schemes[title],
            hue="case",
            hue_order=own,
            palette=palette,
            markers=[styles[case].marker for case in own],
            linestyle="none",
            dodge=0.5 if len(own) > 1 else False,  # type: ignore[arg-type]
            errorbar=interval,
            markersize=2.5,
            err_kws={"linewidth": 0.8},
            legend=False,
            clip_on=False,
            ax=axes,
        )
        scale = _value_axis(axes, value, units[title])
        axes.set_title(textwrap.fill(title, chars))
        axes.set_xlabel(textwrap.fill(safe(units[title] + scale, LABELS), chars))
        axes.set(ylabel="", ylim=(most - 0.5, -0.5))
        axes.yaxis.grid(visible=True)
        axes.tick_params(axis="y", length=0, labelleft=schemes[title] != left)
        left = schemes[title] if len(panels) <= 3 else []
    entries: dict[str, Artist] = {
        k: Line2D([], [], color=palette[k], marker=styles[k].marker, linestyle="")
        for k in cases
    }
    counts = every.groupby(["scheme", "quantity", "case"])["value"].count()
    if int(counts.max()) > 1:
        entries[f"{LEVEL:.0%} interval"] = Line2D([], [], color=MIDDLE, linewidth=0.8)
    legend_below(figure, entries, title=legend if cases else None)
    note_setting(figure, short_setting(records))
    return figure


def _value_axis(axes: Axes, values: Sequence[float], unit: str) -> str:
    """Set the scale of the axis; return its unit with the name of the scale."""
    positive = [value for value in values if value > 0]
    if unit.startswith(SHARE):
        axes.set_xlim(-0.03, 1.03)
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        return ""
    if min(values) < 0 or not positive or max(positive) <= WIDE * min(positive):
        axes.set_xlim(min(0.0, 1.1 * min(values)), 1.1 * max(0.0, max(values)) or 1.0)
        axes.xaxis.set_major_locator(MaxNLocator(3))
        return ""
    least, most = (math.floor(math.log10(end(positive))) for end in (min, max))
    zeros = len(positive) < len(values)
    if zeros:
        start = 10.0**least
        axes.set_xscale("symlog", linthresh=start, linscale=0.8)
        axes.axvspan(-0.4 * start, start, color="0.93", linewidth=0, zorder=0)
        axes.set_xlim(-0.4 * start, 10.0 ** (most + 1))
    else:
        axes.set_xscale("log")
        axes.set_xlim(10.0**least, 10.0 ** (most + 1))
    powers = range(least + zeros, most + 2, max(1, (most - least + 3) // 3))
    texts = [f"{10.0**i:g}" if -3 < i < 4 else f"1e{i}" for i in powers]
    axes.set_xticks([0.0] * zeros + [10.0**i for i in powers], ["0"] * zeros + texts)
    axes.xaxis.set_minor_locator(NullLocator())
    return " (logarithmic; linear in grey)" if zeros else " (logarithmic)"
