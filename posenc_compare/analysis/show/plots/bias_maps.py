"""Bias maps: what a scheme adds to the logit of every query and key."""

from matplotlib.figure import Figure

from posenc_compare.analysis.show.plots.frames import Record
from posenc_compare.analysis.show.plots.head_maps import BIAS, draw_head_maps
from posenc_compare.analysis.show.plots.plot import register_plot


@register_plot(
    "bias_maps",
    order=60,
    caption="What a scheme adds to the logit of every query and key, below the largest "
    "of the query, on one scale for all: pale keys are favoured.",
)
def draw_bias_maps(records: list[Record]) -> Figure | None:
    """Draw query by key; where a query may not look is grey."""
    drawn = draw_head_maps(records, {"bias_map": BIAS}, ("query", "key"))
    return drawn and drawn[0]
