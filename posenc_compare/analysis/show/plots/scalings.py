"""Scalings: a trained network, read at each length under every scaling it has."""

import pandas as pd
from matplotlib.figure import Figure

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.alike import drawn_once
from posenc_compare.analysis.show.plots.extrapolation import (
    LABELS,
    name_axes,
    wide_axis,
)
from posenc_compare.analysis.show.plots.frames import Frame, in_bits, means_table
from posenc_compare.analysis.show.plots.lines import draw_lines, shade
from posenc_compare.analysis.show.plots.panels import (
    add_legends,
    new_panels,
    outer_labels,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import looks, looks_of

PLAIN = "as trained"


@register_plot(
    "scalings",
    order=20,
    measure="extrapolation",
    caption="Bits per byte of networks trained once and read under every scaling: "
    "means over seeds with their 95% intervals.",
)
def draw_scalings(records: list[Record]) -> Figure | None:
    """Draw the mean over seeds, a panel for each scheme that has scalings."""
    styles = looks(records)
    chosen = in_bits(records)
    rows = means_table(chosen, styles).dropna(subset="value")
    read = rows[(rows["quantity"] == "read_bits_per_byte") & rows["x"].gt(0)]
    if read.empty:
        return None
    rows = rows[rows["x"].gt(0)]
    styles, rows = drawn_once(styles, rows)
    read = rows[rows["quantity"] == "read_bits_per_byte"]
    plain = rows[rows["quantity"] == "bits_per_byte"]
    plain = plain[plain["scheme"].isin(read["scheme"])].assign(case=PLAIN)
    both: Frame = pd.concat([plain, read])
    cases = list(both["case"].unique())
    families = ["none" if case == PLAIN else "" for case in cases]  # it comes first
    colours = looks_of(dict(zip(cases, families, strict=True)))
    groups = dict.fromkeys(read["scheme"].unique(), cases)
    figure, panels = new_panels(groups)
    handles = []
    for axes, scheme in zip(panels, groups, strict=True):
        here = both[both["scheme"] == scheme]
        curves = here.assign(scheme=here["case"]).drop(columns=["quantity", "case"])
        own, curves = drawn_once(colours, curves)
        handles.append(draw_lines(axes, curves, own, markers=True))
        axes.set_title(scheme, loc="right")
    trained = [name_axes(axes, both, chosen) for axes in panels]
    bits = wide_axis(panels[0])
    add_legends(figure, panels, handles, [*trained[:1], *shade(both)])
    outer_labels(panels, LABELS[0], bits)
    say_setting(figure, chosen)
    return figure
