"""Similarity: how similar two positions look, by the distance between them."""

from itertools import pairwise, product

import pandas as pd
from matplotlib.figure import Figure

from posenc_compare.records.record import Record
from posenc_compare.show.frame import Frame, usable
from posenc_compare.show.plots.frames import arrays_of, means_of_arrays, merge_equal
from posenc_compare.show.plots.panels import SMALL, add_bar, draw_heat, note_setting
from posenc_compare.show.plots.paper import columns_of
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import FAINT, looks, new_figure
from posenc_compare.show.setting import seeds_of, short_setting

COSINE, LOGIT = "mean cosine of two codes", "mean logit minus that at distance 0"
ENDS = {COSINE: ("vlag", -1.0, 1.0), LOGIT: ("rocket", -10.0, 0.0)}
BEYOND = {COSINE: "neither", LOGIT: "both"}  # a softmax sees little below -10
ROW = 0.14  # inches of a scheme


@register_plot(
    "similarity",
    order=90,
    caption="Mean cosine of two codes, and mean logit of equal tokens after a "
    "LayerNorm minus that at distance 0, by their distance: means over seeds. In "
    "each family, those that fall most stand last.",
)
def draw_similarity(records: list[Record]) -> Figure | None:
    """Draw cosines and logits by distance, a row of colours for each scheme."""
    styles = looks(records)
    codes = [one for one in usable(records, "portrait") if "similarity" in one.arrays]
    logits = usable(records, "distance_decay")
    falls = {
        label: [values - values[0] for values in seeds]
        for label, seeds in arrays_of(logits, "mean_logit", styles).items()
    }
    parts = {COSINE: arrays_of(codes, "similarity", styles), LOGIT: falls}
    rows: Frame = pd.concat(means_of_arrays(v, styles, k) for k, v in parts.items())
    rows = rows.dropna(subset="mean")
    if rows.empty:
        return None
    rows, merged = merge_equal(rows, styles)
    table = rows.pivot(index="scheme", columns=["panel", "x"], values="mean")
    panels = [name for name in parts if name in table]
    fall = table[panels[-1]].mean(axis=1).fillna(0.0)
    families = {look.text: look.family for look in merged.values()}
    order = [*dict.fromkeys(families.values())]
    names = sorted(families, key=lambda k: (order.index(families[k]), -fall[k]))
    own = [families[name] for name in names]
    borders = [own.index(family) for family in dict.fromkeys(own)]
    across = columns_of(2.5, len(panels))
    down = len(panels) // across
    figure = new_figure((ROW * max(len(names), 6) + 1.1) * down)
    grid = figure.subplots(down, across, sharey=True, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=True):
        values = table[panel].reindex(names)
        step = {"xticklabels": max(1, len(values.columns) // 4), "yticklabels": names}
        draw_heat(axes, values.to_numpy(), ENDS[panel], square=False, **step)
        axes.set(xlabel="distance (positions)", facecolor=FAINT)
        axes.tick_params(axis="y", length=0)
        axes.hlines(borders[1:], *axes.get_xlim(), color="white", linewidth=2)
        place = {"ax": axes, "location": "top", "aspect": 30, "pad": 0.02}
        n = seeds_of(codes if panel == COSINE else logits)
        n += "; grey: not defined" * bool(values.isna().all(axis=1).any())
        add_bar(figure, axes, f"{panel}\n({n})", BEYOND[panel], **place)
    for axes, (start, end) in product(grid[:, -1], pairwise([*borders, len(names)])):
        place = {"transform": axes.get_yaxis_transform(), "fontsize": SMALL}
        axes.text(1.02, (start + end) / 2, own[start], va="center", **place)
    note_setting(figure, short_setting([*codes, *logits]))
    return figure
