"""Trained maps: the bias of a network after its training, and similarity of codes."""

from matplotlib.figure import Figure

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.head_maps import BIAS, Kind, draw_head_maps
from posenc_compare.analysis.show.plots.plot import register_plot

PLACES = ("position", "position")


@register_plot(
    "trained_maps",
    order=65,
    caption="What schemes add to logits of the first layer after training, below the "
    "largest of each query and on one scale for all, and the cosine of the codes of "
    "two positions.",
)
def draw_trained_maps(records: list[Record]) -> Figure | None:
    """Draw query by key, and position by position, of the first seed."""
    kinds = {
        "trained_bias": BIAS,
        "trained_similarity": Kind("cosine", PLACES, ("vlag", -1.0, 1.0)),
    }
    drawn = draw_head_maps(records, kinds, measure="inside", when="after training")
    return drawn and drawn[0]
