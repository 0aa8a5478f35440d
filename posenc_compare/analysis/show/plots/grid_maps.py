"""Grid maps: how the middle cell of a grid sees every cell."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from posenc_compare.analysis.show.plots.frames import Record
from posenc_compare.analysis.show.plots.head_maps import Kind, draw_head_maps
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.style import MIDDLE

SIDES = ("row", "column")
KINDS: dict[str, Kind] = {
    "grid_bias": Kind("logits", SIDES),
    "grid_similarity": Kind("cosine", SIDES, ("vlag", -1, 1)),
}


@register_plot(
    "grid_maps",
    order=70,
    caption="How the middle cell of a grid, framed, sees every cell, before any "
    "training: what is added to the logit, or the cosine of both codes; "
    "grey where it may not look. Of three axes, the plane in the middle "
    "of the first.",
)
def draw_grid_maps(records: list[Record]) -> Figure | None:
    """Draw the bias of each cell, or the cosine of its code with the middle's."""
    drawn = draw_head_maps(records, KINDS)
    if drawn is None:
        return None
    figure, maps = drawn
    for axes in maps:
        columns, rows = (int(max(ends)) for ends in (axes.get_xlim(), axes.get_ylim()))
        middle = columns // 2, rows // 2
        frame = Rectangle(middle, 1, 1, fill=False, color=MIDDLE, linewidth=0.8)
        axes.add_patch(frame).set_clip_on(False)
    return figure
