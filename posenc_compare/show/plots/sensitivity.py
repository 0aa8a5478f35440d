"""Sensitivity: what a scheme loses under another rate, its own or the network's."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from posenc_compare.records.labels import without_settings
from posenc_compare.records.record import Record
from posenc_compare.show.plots.frames import Frame, in_bits
from posenc_compare.show.plots.lines import Lines
from posenc_compare.show.plots.panels import set_ticks
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import looks_in_turn, safe

RATES = ("learning_rate", "scheme_rate")
COLUMNS = ["panel", "x", "multiple", "seed", "value"]


@register_plot(
    "sensitivity",
    order=25,
    caption="Bits per byte at the training length, above the best of each scheme, "
    "against the peak rate: means over seeds, and a dot for each seed. Colours: the "
    "rate of the scheme's own parameters in peak rates; 0 is the default rule.",
)
def draw_sensitivity(records: list[Record]) -> Figure | None:
    """Draw the score by learning rate, a panel for each scheme."""
    import seaborn as sns

    chosen = in_bits(records)
    rows = _rows(chosen)
    rows = rows[rows.groupby("panel")["x"].transform("nunique") > 1]
    if rows.empty:
        return None
    means = rows.groupby(["panel", "multiple", "x"], as_index=False)["value"].mean()
    best = rows["panel"].map(means.groupby("panel")["value"].min())
    multiples = {
        rate: f"{rate:g}" if rate else "0: default rule"
        for rate in sorted(rows["multiple"].unique())
    }
    rows = rows.assign(
        value=rows["value"] - best, scheme=rows["multiple"].map(multiples)
    )
    rows = rows.sort_values("panel", kind="stable")
    styles = looks_in_turn(multiples.values())
    layout = {"columns": 4, "width": 1.7, "height": 1.15}
    lines = Lines(rows, styles, markers=False, bands=False, **layout)
    palette = {text: look.colour for text, look in styles.items()}
    dots = {"hue": "scheme", "palette": palette, "s": 8, "legend": False}
    for axes, title, _ in lines.facets:
        own = rows[rows["panel"] == title]
        sns.scatterplot(own, x="x", y="value", ax=axes, **dots)
    lines.axes[0].set_xscale("log")
    set_ticks(lines.axes[0].xaxis, FixedLocator(sorted(rows["x"].unique())))
    title = "rate of the scheme's own parameters, in peak rates"
    lines.finish("peak rate", "bits per byte above the best", chosen, title)
    return lines.figure


def _rows(records: list[Record]) -> Frame:
    """Return the bits of every record at its shortest test length."""
    found = []
    for one in records:
        points = [r for r in one.rows if r.quantity == "bits_per_byte" and r.x]
        known = [(r.x, r.value) for r in points if r.value is not None]
        if known:
            own, multiple = (one.spec.setting.get(rate, 0.0) for rate in RATES)
            panel = safe(_without_rates(one))
            found.append((panel, own, multiple, one.spec.seed, min(known)[1]))
    return pd.DataFrame(found, columns=COLUMNS)


def _without_rates(record: Record) -> str:
    """Return the label of a record, without the rates among its settings."""
    name = without_settings(record).label
    others = [one for one in record.settings if one.partition("=")[0] not in RATES]
    return f"{name} [{', '.join(others)}]" if others else name
