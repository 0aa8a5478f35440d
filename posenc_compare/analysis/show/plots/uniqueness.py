"""Uniqueness: whether every position or distance has a code of its own."""

from matplotlib.figure import Figure

from posenc_compare.analysis.show.plots.dots import draw_dots
from posenc_compare.analysis.show.plots.frames import Record
from posenc_compare.analysis.show.plots.plot import register_plot

TITLES = {
    "distinct_share": "codes that are distinct",
    "nearest_distance_relative": "distance of the nearest two codes",
}


@register_plot(
    "uniqueness",
    order=110,
    measure="uniqueness",
    caption="Whether every position or distance has a code of its own: means over "
    "seeds with their 95% intervals.",
)
def draw_uniqueness(records: list[Record]) -> Figure | None:
    """Draw the share of distinct codes by dtype, and the distance of the nearest."""
    return draw_dots(records, "uniqueness", TITLES, "codes rounded to")
