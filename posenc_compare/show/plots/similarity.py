"""Similarity: how similar two positions look, by the distance between them."""

import pandas as pd
from matplotlib.figure import Figure

from posenc_compare.records.record import Record
from posenc_compare.show.frame import Frame
from posenc_compare.show.plots.frames import array_rows, merge_equal, usable
from posenc_compare.show.plots.lines import Lines, by_family
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import looks
from posenc_compare.show.setting import seeds_of, short_setting

NAMES = {  # of the y axis, by what begins the title of a panel
    "cosine": "mean cosine\nof two codes",
    "logit": "mean logit minus\nthat at distance 0",
}
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
    cosine, logit = NAMES
    parts = {
        cosine: array_rows(codes, "similarity", styles),
        logit: _from_zero(array_rows(logits, "mean_logit", styles)),
    }
    rows = pd.concat(part.assign(case=case) for case, part in parts.items())
    rows = rows.dropna(subset="value")
    if rows.empty:
        return None
    merged_rows, merged = merge_equal(rows, styles)
    parted, several = by_family(merged_rows, merged)
    parted = parted.sort_values("case", kind="stable")
    titles = parted["case"] + (", " + parted["panel"] if several else "")
    parted = parted.assign(panel=titles)
    layout = {"page": titles.nunique() > 1, "height": 1.9, "share": False}
    lines = Lines(parted, merged, markers=False, beside=several, **layout)
    ends = _logit_ends(rows[rows["case"] == logit])
    setting = short_setting(logits or codes)
    if logits and codes:
        setting = f"{setting}; of cosines {seeds_of(codes)}"
    lines.finish("distance (positions)", "", setting)
    for title, axes in lines.panels.items():
        name = title.partition(",")[0]
        axes.set(ylabel=NAMES[name], xlim=(0, None))
        if name == logit:
            axes.set_ylim(ends)
    return lines.figure


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
