"""Similarity: how similar two positions look, by the distance between them."""

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import (
    Frame,
    array_rows,
    merge_equal,
    usable,
)
from posenc_compare.analysis.show.plots.panels import (
    band_entry,
    by_family,
    draw_lines,
    legend_below,
    legend_beside,
    new_panels,
    note_setting,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.style import looks
from posenc_compare.analysis.show.setting import seeds_of, short_setting

COSINE, LOGIT = "mean cosine\nof two codes", "mean logit minus\nthat at distance 0"
DEEP = 20.0  # logits below 0 at which the axis ends; a softmax sees no difference


@register_plot(
    "similarity",
    order=90,
    caption="Mean cosine of two codes, and mean logit of equal tokens after a "
    "LayerNorm, by their distance: means over seeds with their 95% intervals.",
)
def draw_similarity(records: list[Record]) -> Figure | None:
    """Draw the mean cosine of two codes, and the mean logit, by distance.

    Logits are those of equal tokens after a LayerNorm, as a change from distance 0.
    """
    styles = looks(records)
    codes = [one for one in usable(records, "portrait") if "similarity" in one.arrays]
    logits = usable(records, "distance_decay")
    parts = {
        COSINE: array_rows(codes, "similarity", styles),
        LOGIT: _from_zero(array_rows(logits, "mean_logit", styles)),
    }
    rows = pd.concat(part.assign(case=case) for case, part in parts.items())
    rows = rows.dropna(subset="value")
    if rows.empty:
        return None
    rows, merged = merge_equal(rows, styles)
    found = {
        (case, title): own
        for case in parts
        for title, texts in by_family(merged).items()
        if len(own := rows[(rows["case"] == case) & rows["scheme"].isin(texts)])
    }
    titles = [title for _, title in found]
    figure, panels = new_panels(titles, page=len(found) > 1, height=1.9, share=False)
    entries: dict[str, Artist] = {}
    for axes, ((case, title), own) in zip(panels, found.items(), strict=True):
        lines = draw_lines(axes, own, merged, markers=False)
        if title:
            legend_beside(axes, lines)
        else:
            entries |= lines
        axes.set(xlabel="distance (positions)", ylabel=case, xlim=(0, None))
        if case == LOGIT:
            axes.set_ylim(_logit_ends(rows[rows["case"] == LOGIT]))
    legend_below(figure, entries | band_entry(rows))
    setting = short_setting(logits or codes)
    if logits and codes:
        setting = f"{setting}; of cosines {seeds_of(codes)}"
    note_setting(figure, setting)
    return figure


def _logit_ends(rows: Frame) -> tuple[float, float]:
    """Return the ends of the axis of logits, by the means of all schemes."""
    means = rows.groupby(["scheme", "x"])["value"].mean()
    return max(-DEEP, min(-0.5, 1.1 * means.min())), max(0.5, 1.1 * means.max())


def _from_zero(rows: Frame) -> Frame:
    """Return rows whose values count from each seed's own value at distance 0.

    Values whose mean lies below the axis have no interval.
    """
    zero = rows.groupby(["scheme", "seed"])["value"].transform("first")
    rows = rows.assign(value=rows["value"] - zero)
    mean = rows.groupby(["scheme", "x"])["value"].transform("mean")
    return rows.assign(value=rows["value"].where(mean > -DEEP, mean))
