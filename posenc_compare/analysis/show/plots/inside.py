"""Inside: where trained networks keep positions, and what they do with them."""

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import (
    Frame,
    arrays_of,
    rows_of,
    usable,
)
from posenc_compare.analysis.show.plots.panels import (
    band_entry,
    draw_lines,
    legend_below,
    new_panels,
    note_setting,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.style import Look, looks
from posenc_compare.analysis.show.setting import short_setting
from posenc_compare.analysis.show.tasks import by_task

CURVES = {
    "position_probe": "position read by\na linear probe (R²)",
    "attention_distance": "mean distance of\nattention (tokens)",
}
USE = "use of rotary pairs\n(mean = 1)"


@register_plot(
    "inside",
    order=45,
    measure="inside",
    caption="Trained networks from within: how well a linear probe reads the position "
    "after each layer (0 is the input), how far back attention looks, and which rotary "
    "pairs are used: means over seeds with their 95% intervals.",
)
def draw_inside(records: list[Record]) -> Figure | None:
    """Draw a panel for each question that the records of the first task answer."""
    chosen = next(iter(by_task(usable(records, "inside")).values()), [])
    styles = looks(records)
    rows = rows_of(chosen, styles)
    rows = rows[rows["case"].eq("") & rows["value"].notna()]
    parts = {
        title: rows[rows["quantity"] == quantity] for quantity, title in CURVES.items()
    }
    parts[USE] = _pairs(chosen, styles)
    parts = {title: part for title, part in parts.items() if not part.empty}
    if not parts:
        return None
    figure, panels = new_panels(
        [""] * len(parts), columns=3, width=2.2, height=1.9, share=False
    )
    entries: dict[str, Artist] = {}
    for axes, (title, part) in zip(panels, parts.items(), strict=True):
        entries |= draw_lines(axes, part, styles)
        pairs = title == USE
        axes.set_xlabel("pair, fastest first" if pairs else "after layer")
        axes.set_ylabel(title)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    order = [look.text for look in styles.values() if look.text in entries]
    bands = band_entry(pd.concat(parts.values()))
    legend_below(figure, {text: entries[text] for text in order} | bands)
    note_setting(figure, short_setting(chosen))
    return figure


def _pairs(records: list[Record], styles: dict[str, Look]) -> Frame:
    """Return the use of each rotary pair over that of all, of each seed."""
    parts = [pd.DataFrame(columns=["scheme", "quantity", "case", "seed", "x", "value"])]
    for label, seeds in arrays_of(records, "pair_use", styles).items():
        for seed, use in enumerate(seeds):
            share = (use / use.mean()).mean(axis=0)  # over layers
            x = range(1, len(share) + 1)
            own = {"scheme": styles[label].text, "quantity": "pair_use", "case": ""}
            parts.append(pd.DataFrame({**own, "seed": seed, "x": x, "value": share}))
    return pd.concat(parts[1:] or parts)
