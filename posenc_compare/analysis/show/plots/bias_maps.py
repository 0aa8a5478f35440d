"""Bias maps: what a scheme adds to the logit of every query and key."""

from matplotlib.figure import Figure

from posenc_compare.analysis.show.plots.frames import Record
from posenc_compare.analysis.show.plots.head_maps import BIAS, draw_head_maps
from posenc_compare.analysis.show.plots.plot import register_plot


@register_plot(
    "bias_maps",
    order=60,
    caption="What a scheme adds to the logit of every query and key up to it, below "
    "the largest of the query, before training and on one scale for all: pale keys are "
    "favoured, dark ones are hardly seen.",
)
def draw_bias_maps(records: list[Record]) -> Figure | None:
    """Draw query by key, a panel for each head; of many heads or schemes, some."""
    drawn = draw_head_maps(records, {"bias_map": BIAS})
    return drawn and drawn[0]
