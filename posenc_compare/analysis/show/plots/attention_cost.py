"""Cost of attention: time by length, on logarithmic axes, beside the bare kernel."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from posenc_compare.analysis.show.plots.alike import drawn_once
from posenc_compare.analysis.show.plots.frames import (
    Frame,
    Record,
    means_table,
    usable,
)
from posenc_compare.analysis.show.plots.lines import draw_lines
from posenc_compare.analysis.show.plots.panels import (
    add_legends,
    groups_of,
    new_panels,
    outer_labels,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import MIDDLE, looks

TIME, RATIO = "gradient_ms", "gradient_ratio"
KERNEL: dict[str, Any] = {"color": MIDDLE, "linewidth": 2, "alpha": 0.5}


@register_plot(
    "attention_cost",
    order=29,
    measure="attention_cost",
    caption="Median time of one layer of attention, forward and backward, by length. "
    "Grey: torch's causal kernel in the same rounds, to which nothing is added.",
)
def draw_attention_cost(records: list[Record]) -> Figure | None:
    """Draw the time of each scheme by length, and that of the kernel alone."""
    styles = looks(records)
    chosen = usable(records, "attention_cost")
    rows = means_table(chosen, styles).dropna(subset=["value", "x"])
    times = rows[rows["quantity"] == TIME]
    if times["x"].nunique() < 2:
        return None
    kernel = _kernel(rows)
    styles, times = drawn_once(styles, times)
    groups = groups_of(styles, times["scheme"])
    figure, panels = new_panels(groups)
    handles = []
    for axes, texts in zip(panels, groups.values(), strict=True):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.plot(kernel.index, kernel, **KERNEL)
        own = times[times["scheme"].isin(texts)]
        handles.append(draw_lines(axes, own, styles, markers=True, same=0))
        axes.set_xticks(sorted(times["x"].unique()))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    bare = [Line2D([], [], label="bare kernel", **KERNEL)]
    add_legends(figure, panels, handles, bare)
    outer_labels(panels, "length (tokens)", "milliseconds")
    say_setting(figure, chosen)
    return figure


def _kernel(rows: Frame) -> Frame:
    """Return the median time of the kernel over the records of all schemes, by x."""
    table = rows.pivot_table(index=["scheme", "x"], columns="quantity", values="value")
    return (table[TIME] / table[RATIO]).groupby("x").median()
