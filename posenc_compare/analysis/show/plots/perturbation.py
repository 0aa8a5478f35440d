"""Perturbation: how much every scheme changes what it is applied to."""

from matplotlib.figure import Figure

from posenc_compare.analysis.show.plots.dots import draw_dots
from posenc_compare.analysis.show.plots.frames import Record
from posenc_compare.analysis.show.plots.plot import register_plot

QUANTITIES = [
    "relative_size",
    "own_token_nearest",
    "left_after_layernorm",
    "bias_share",
]


@register_plot(
    "perturbation",
    order=100,
    measure="perturbation",
    caption="How much each scheme changes what it is applied to: means over seeds with "
    "their 95% intervals.",
)
def draw_perturbation(records: list[Record]) -> Figure | None:
    """Draw size, tokens kept, what a LayerNorm leaves, and the share of biases."""
    return draw_dots(records, "perturbation", QUANTITIES, "applied to")
