"""Small codes: the first positions of a narrow code, readable cell by cell."""

from matplotlib.figure import Figure

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.code_maps import draw_code_maps
from posenc_compare.analysis.show.plots.plot import register_plot


@register_plot(
    "codes_small",
    order=50,
    caption="The same vectors for the first positions of a narrow model.",
)
def draw_codes_small(records: list[Record]) -> Figure | None:
    """Draw 16 positions by 32 channels for every scheme that adds a vector."""
    return draw_code_maps(records, "code_small", height=1.7, ticks=(3, 4), cells=True)
