"""Retrieval of a checkpoint: by depth and length, and against bits per byte."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.records.record import Record
from posenc_compare.settings.retrieval import DEPTHS
from posenc_compare.show.plots.frames import Array, Frame
from posenc_compare.show.plots.panels import (
    SMALL,
    add_bar,
    draw_heat,
    legend_below,
    name_values,
    new_panels,
    note_setting,
)
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, Look, looks_of_scalings, safe
from posenc_compare.show.retrieval import BITS, chances, fillers_of, retrieval_rows
from posenc_compare.show.setting import short_setting
from posenc_compare.stats.intervals import half_width, wilson

ENDS = ("mako", 0.0, 1.0)  # colour map of shares, and its ends
HEIGHT, HIGH = 1.45, 1.8  # inches of a row: of maps, and of points
LINEAR = 0.01  # bits per byte, up to which an axis is linear; then it is logarithmic
CHANCE = {"color": MIDDLE, "linestyle": ":", "linewidth": 1.0}


@register_plot(
    "retrieval",
    order=23,
    measure="retrieval",
    caption="Share of needles that a trained model finds, by the depth at which they "
    "stand and the length of the text, under every scaling. The line on the colour "
    "bar is chance.",
)
def draw_retrieval(records: list[Record]) -> Figure | None:
    """Draw a map of each rule: depth down, length across."""
    rows = retrieval_rows(records)
    if rows.empty:
        return None
    chosen, lengths = [*rows["record"]], sorted(rows["length"].unique())
    names = [*rows["rule"].unique()]
    figure, panels = new_panels([safe(name) for name in names], 3, HEIGHT)
    depths = [f"{100 * (2 * part + 1) // (2 * DEPTHS)} %" for part in range(DEPTHS)]
    for name, axes in zip(names, panels, strict=True):
        own = rows[rows["rule"] == name]
        columns = [own[own["length"] == length]["record"] for length in lengths]
        draw_heat(
            axes,
            np.stack([*map(_by_depth, columns)], axis=1),
            ENDS,
            square=False,
            annot=True,
            fmt=".2f",
            annot_kws={"fontsize": SMALL},
            xticklabels=lengths,
            yticklabels=depths,
        )
    place = {"ax": panels, "fraction": 0.03, "pad": 0.02}
    add_bar(figure, panels[0], "share of needles found", **place)
    for colour, width in (("white", 1.5), ("black", 0.6)):
        figure.axes[-1].axhline(chances(chosen)[-1], color=colour, linewidth=width)
    figure.supxlabel("length (tokens)", fontsize="medium")
    note_setting(figure, short_setting(chosen))
    name_values(figure, "depth in the text")
    return figure


@register_plot(
    "retrieval_bits",
    order=24,
    measure="retrieval",
    caption="Share of needles found against the bits per byte of the same texts, above "
    "those of the scaling that has the fewest (logarithmic above 0.01). Each panel is "
    "over the texts that all of its scalings have read. Bars are 95% intervals over "
    "needles (Wilson) and, of several texts, over these. Bits mislead where a point "
    "stands left of a higher one.",
)
def draw_retrieval_bits(records: list[Record]) -> Figure | None:
    """Draw a panel for each filler and length, with a point for each rule."""
    rows = retrieval_rows(records)
    fillers = fillers_of(rows)
    if not fillers:
        return None
    chosen, lengths = [*rows["record"]], sorted(rows["length"].unique())
    styles = looks_of_scalings(rows["rule"].unique())
    shown = [(filler, length) for filler in fillers for length in lengths]
    titles = [f"{name.removesuffix(BITS)}, {length} tokens" for name, length in shown]
    figure, panels = new_panels(titles, len(lengths), HIGH, share=False)
    for place, ((filler, length), axes) in enumerate(zip(shown, panels, strict=True)):
        _draw_points(axes, rows[rows["length"] == length], filler, styles)
        axes.axhline(chances(chosen)[-1], **CHANCE)
        axes.set_ylim(0, 1)
        axes.set_xscale("symlog", linthresh=LINEAR)
        axes.margins(x=0.1)
        axes.tick_params(labelleft=place % len(lengths) == 0)
        axes.xaxis.set_major_formatter("{x:g}")
        if place >= len(shown) - len(lengths):
            axes.set_xlabel("bits per byte\nabove the best")
    entries = {name: look.dot() for name, look in styles.items()}
    legend_below(figure, {**entries, "chance": Line2D([], [], **CHANCE)})
    note_setting(figure, short_setting(chosen))
    name_values(figure, "share of needles found")
    return figure


def _draw_points(
    axes: Axes, rows: Frame, filler: str, styles: Mapping[str, Look]
) -> None:
    """Draw a point for every rule of one length that has bits of a filler."""
    known = rows.dropna(subset=filler)
    by_seed = known.pivot(index="seed", columns="rule", values=filler).dropna()
    rows = rows[rows["seed"].isin(by_seed.index)]
    if by_seed.empty:
        return
    above = by_seed.sub(by_seed[by_seed.mean().idxmin()], axis=0)
    for name in filter(above.columns.__contains__, styles):
        own = rows[rows["rule"] == name]["record"]
        found, asked = (
            sum(_counts(record, counts, filler).sum() for record in own)
            for counts in ("found", "asked")
        )
        low, high = wilson(found, asked)
        share = found / asked
        axes.errorbar(
            above[name].mean(),
            share,
            xerr=half_width(above[name]),
            yerr=[[share - low], [high - share]],
            color=styles[name].colour,
            marker=styles[name].marker,
            markersize=5,
            markeredgecolor="w",
            elinewidth=0.7,
        )


def _counts(record: Record, name: str, filler: str) -> Array:
    """Return the counts of a filler, `(kind, depth)`."""
    names = str(record.spec.setting["fillers"]).replace(" ", "").split(",")
    names = [*dict.fromkeys(filter(None, names))]
    place = names.index(filler.removesuffix(BITS))
    return np.array(record.arrays[name], dtype=np.float64)[place]


def _by_depth(records: Sequence[Record]) -> Array:
    """Return the share found at each depth, `(depth,)`; NaN without any."""
    if not len(records):
        return np.full(DEPTHS, np.nan)
    found, asked = (
        np.sum([np.array(record.arrays[name]) for record in records], axis=(0, 1, 2))
        for name in ("found", "asked")
    )
    return found / asked
