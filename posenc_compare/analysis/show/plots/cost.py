"""Cost: parameters, time and memory that a step of training takes with a scheme."""

from matplotlib.figure import Figure

from posenc_compare.analysis.show.plots.dots import draw_dots
from posenc_compare.analysis.show.plots.frames import Record
from posenc_compare.analysis.show.plots.plot import register_plot

TITLES = {
    "scheme_parameters": "parameters of the scheme",
    "step_seconds": "median time of a step",
    "step_memory": "most memory of a step",
}


@register_plot(
    "cost",
    order=28,
    measure="cost",
    caption="What a step of training takes: parameters of the scheme, median seconds, "
    "and the most memory of its tensors.",
)
def draw_cost(records: list[Record]) -> Figure | None:
    """Draw parameters, seconds and memory of a step."""
    return draw_dots(records, "cost", TITLES, "")
