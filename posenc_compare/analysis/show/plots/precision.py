"""Precision: what is lost where a scheme is computed in fewer bits, far from 0."""

from matplotlib.figure import Figure

from posenc_compare.analysis.show.plots.dots import draw_dots
from posenc_compare.analysis.show.plots.frames import Record
from posenc_compare.analysis.show.plots.plot import register_plot

FAR = 65_536.0
TITLES = {
    "logit_error": "logits",
    "code_error": "code added to a token",
    "phase_error": "phase from token to token",
}


@register_plot(
    "precision",
    order=115,
    measure="precision",
    caption="Largest error against float64 in a text that begins at position 65 536, "
    "by what is computed in; `ids`: position ids are made in that dtype too, as "
    "several libraries do.",
)
def draw_precision(records: list[Record]) -> Figure | None:
    """Draw the largest errors of logits, codes and phases, a dot for each dtype."""
    return draw_dots(records, "precision", TITLES, "computed in", at=FAR)
