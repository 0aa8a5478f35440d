"""Inside: where trained networks keep positions, and what they do with them."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import (
    Frame,
    arrays_of,
    means_table,
    usable,
)
from posenc_compare.analysis.show.plots.lines import draw_lines, shade
from posenc_compare.analysis.show.plots.paper import across, wrapped
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import (
    MIDDLE,
    PAGE,
    Look,
    add_legend,
    looks,
    new_figure,
)
from posenc_compare.analysis.show.tasks import by_task
from posenc_compare.stats.intervals import half_width

WIDTH, HEIGHT = 2.2, 2.1  # inches of a panel
CURVES = {
    "position_probe": "position read by a linear probe (R²)",
    "attention_distance": "mean distance of attention (tokens)",
}

USE = "use of pairs (mean = 1)"


@register_plot(
    "inside",
    order=45,
    measure="inside",
    caption="Trained networks from within: how well a linear probe reads the position "
    "after each layer (0 is the input), how far back attention looks, and which rotary "
    "pairs are used: means over seeds with their 95% intervals.",
)
def draw_inside(records: list[Record]) -> Figure | None:
    """Draw a panel for each question that the records of the first task answer."""
    chosen = next(iter(by_task(usable(records, "inside")).values()), [])
    styles = looks(records)
    rows = means_table(chosen, styles)
    panels = {
        (title, "after layer"): rows[
            (rows["quantity"] == quantity)
            & (rows["case"] == "")
            & rows["value"].notna()
        ]
        for quantity, title in CURVES.items()
    }
    panels[USE, "pair, from the fastest to the slowest"] = _pairs(chosen, styles)
    panels = {names: curves for names, curves in panels.items() if not curves.empty}
    if not panels:
        return None
    columns = across(WIDTH, len(panels))
    down = -(-len(panels) // columns)
    figure = new_figure(PAGE, HEIGHT * down)
    grid = figure.subplots(down, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    drawn: dict[str, Line2D] = {}
    for axes, ((title, x), curves) in zip(grid.flat, panels.items(), strict=False):
        for handle in draw_lines(axes, curves, styles, markers=True):
            drawn.setdefault(str(handle.get_label()), handle)
        if title == USE:
            axes.axhline(1, color=MIDDLE, linewidth=0.7, linestyle=(0, (1, 1.5)))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(x)
        axes.set_ylabel(wrapped(title, HEIGHT - 0.6))
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    handles = [drawn[look.text] for look in styles.values() if look.text in drawn]
    add_legend(figure, [*handles, *shade(pd.concat(panels.values()))])
    say_setting(figure, chosen)
    return figure


def _pairs(records: list[Record], styles: dict[str, Look]) -> Frame:
    """Return the use of each rotary pair over that of all, as a curve."""
    parts = []
    for look, seeds in arrays_of(records, "pair_use", styles):
        shares = pd.DataFrame([(use / use.mean()).mean(axis=0) for use in seeds])
        parts.append(
            pd.DataFrame(
                {
                    "scheme": look.text,
                    "x": range(1, shares.shape[1] + 1),
                    "value": shares.mean(),
                    "half_width": [half_width(shares[pair]) for pair in shares],
                }
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
