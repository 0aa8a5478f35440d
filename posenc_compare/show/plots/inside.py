"""Inside: where trained networks keep positions, and what they do with them."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from posenc_compare.records.record import Record
from posenc_compare.show.plots.frames import Frame, arrays_of, rows_of, usable
from posenc_compare.show.plots.lines import Lines
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, Look, looks
from posenc_compare.show.tasks import by_task

CURVES = {
    "position_probe": "position read by\na linear probe (R²)",
    "attention_distance": "mean distance of\nattention (tokens)",
}
USE = "use of rotary pairs\n(mean = 1)"


@register_plot(
    "inside",
    order=45,
    measure="inside",
    caption="Trained networks from within: how well a linear probe reads the position "
    "after each layer (0 is the input), how far back attention looks, and which rotary "
    "pairs are used: means over seeds with their 95% intervals.",
)
def draw_inside(records: list[Record]) -> Figure | None:
    """Draw a panel for each question about trained networks, for the first task."""
    chosen = next(iter(by_task(usable(records, "inside")).values()), [])
    styles = looks(records)
    rows = rows_of(chosen, styles)
    rows = rows[rows["case"].eq("")]
    parts = [rows[rows["quantity"] == k].assign(panel=t) for k, t in CURVES.items()]
    every: Frame = pd.concat([*parts, _pairs(chosen, styles)])
    if every["value"].isna().all():
        return None
    lines = Lines(every, styles, columns=3, width=2.2, height=1.9, share=False)
    lines.finish("", "", chosen)
    for axes, title, _ in lines.facets:
        if title == USE:
            axes.axhline(1, color=MIDDLE, linewidth=0.8, linestyle=":", zorder=1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("pair, fastest first" if title == USE else "after layer")
    return lines.figure


def _pairs(records: list[Record], styles: dict[str, Look]) -> Frame:
    """Return the use of each rotary pair over that of all, of each seed."""
    rows = [
        (USE, styles[label].text, seed, pair, share)
        for label, seeds in arrays_of(records, "pair_use", styles).items()
        for seed, use in enumerate(seeds)
        for pair, share in enumerate((use / use.mean()).mean(axis=0), 1)  # over layers
    ]
    return pd.DataFrame(rows, columns=["panel", "scheme", "seed", "x", "value"])
