"""Inside: where trained networks keep positions, and what they do with them."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from posenc_compare.show.frame import Frame, Numbers, usable
from posenc_compare.show.plots.frames import arrays_of, means_of, means_of_arrays
from posenc_compare.show.plots.lines import Lines
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, looks
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
def draw_inside(records: Numbers) -> Figure | None:
    """Draw a panel for each question about trained networks, for the first task."""
    chosen = next(iter(by_task(usable(records, "inside")).values()), [])
    styles = looks(records)
    means = means_of(records, chosen, styles)
    means = means[means["case"].eq("")]
    parts = [means[means["quantity"] == k].assign(panel=t) for k, t in CURVES.items()]
    uses = {
        label: [(use / use.mean()).mean(axis=0) for use in seeds]  # over layers
        for label, seeds in arrays_of(chosen, "pair_use", styles).items()
    }
    pairs = means_of_arrays(uses, styles, USE)
    every: Frame = pd.concat([*parts, pairs.assign(x=pairs["x"] + 1)])
    if every["mean"].isna().all():
        return None
    lines = Lines(every, styles, columns=3, width=2.2, height=1.9, share=False)
    lines.finish("", "", chosen)
    for axes, title, _ in lines.facets:
        if title == USE:
            axes.axhline(1, color=MIDDLE, linewidth=0.8, linestyle=":", zorder=1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("pair, fastest first" if title == USE else "after layer")
    return lines.figure
