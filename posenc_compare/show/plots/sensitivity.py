"""Sensitivity: what a scheme loses under another rate, its own or the network's."""

import math
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from posenc_compare.records.labels import without_settings
from posenc_compare.records.record import Record
from posenc_compare.show.frame import Frame, Numbers, rows_of
from posenc_compare.show.plots.frames import in_bits, means_of
from posenc_compare.show.plots.lines import Lines
from posenc_compare.show.plots.panels import set_ticks
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import looks, looks_in_turn, safe

RATES = ("learning_rate", "scheme_rate")
DOT: dict[str, Any] = {"s": 8, "edgecolor": "w", "linewidth": 0.4, "zorder": 3}


@register_plot(
    "sensitivity",
    order=25,
    caption="Bits per byte at the training length, above the best of each scheme, "
    "against the peak rate: means over seeds, and a dot for each seed. Colours: the "
    "rate of the scheme's own parameters in peak rates; 0 is the default rule.",
)
def draw_sensitivity(records: Numbers) -> Figure | None:
    """Draw the score by learning rate, a panel for each scheme."""
    chosen = in_bits(records)
    means = _means(records, chosen)
    means = means[means.groupby("panel")["x"].transform("nunique") > 1]
    if means.empty:
        return None
    best = means.groupby("panel")["mean"].transform("min")
    multiples = {
        rate: f"{rate:g}" if rate else "0: default rule"
        for rate in sorted(means["multiple"].unique())
    }
    scheme = means["multiple"].map(multiples)
    means = means.assign(mean=means["mean"] - best, best=best, scheme=scheme)
    styles = {
        text: replace(look, marker="")
        for text, look in looks_in_turn(multiples.values()).items()
    }
    bare = means.assign(half_width=math.nan).sort_values(["panel", "x"])
    lines = Lines(bare, styles, columns=4, width=1.7, height=1.15)
    for axes, title, _ in lines.facets:
        for mean in rows_of(means[means["panel"] == title]):
            seeds = [value - mean.best for value in mean.values.values()]
            colour = styles[mean.scheme].colour
            axes.scatter([mean.x] * mean.n, seeds, color=colour, **DOT)
    lines.axes[0].set_xscale("log")
    set_ticks(lines.axes[0].xaxis, FixedLocator(sorted(means["x"].unique())))
    title = "rate of the scheme's own parameters, in peak rates"
    lines.finish("peak rate", "bits per byte above the best", chosen, title)
    return lines.figure


def _means(numbers: Numbers, chosen: list[Record]) -> Frame:
    """Return the bits at the shortest test length of each label; `x` is the rate."""
    styles = looks(chosen)
    means = means_of(numbers, chosen, styles).dropna(subset="mean")
    means = means[(means["quantity"] == "bits_per_byte") & (means["x"] > 0)]
    means = means.sort_values("x", kind="stable").drop_duplicates("scheme")
    records = {styles[one.label].text: one for one in chosen}
    first = [records[text] for text in means["scheme"]]
    own, multiple = (
        [one.spec.setting.get(rate, 0.0) for one in first] for rate in RATES
    )
    panels = [safe(_without_rates(one)) for one in first]
    return means.assign(x=own, multiple=multiple, panel=panels)


def _without_rates(record: Record) -> str:
    """Return the label of a record, without the rates among its settings."""
    name = without_settings(record).label
    others = [one for one in record.settings if one.partition("=")[0] not in RATES]
    return f"{name} [{', '.join(others)}]" if others else name
