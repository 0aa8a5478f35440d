"""Retrieval of a checkpoint: by depth and length, and against bits per byte."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.records.record import Record
from posenc_compare.settings.retrieval import DEPTHS
from posenc_compare.show.plots.frames import Array
from posenc_compare.show.plots.heat import SMALL, add_bar, draw_heat
from posenc_compare.show.plots.panels import legend_below, new_panels, note_setting
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, Look, looks_in_turn, safe
from posenc_compare.show.retrieval import BITS, by_rule, chance, scores, usable
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
    chosen = usable(records)
    if not chosen:
        return None
    lengths = sorted({_length(record) for record in chosen})
    names = [*dict.fromkeys(rule for rule, _ in scores(chosen))]
    figure, panels = new_panels([safe(name) for name in names], 3, HEIGHT)
    depths = [f"{100 * (2 * part + 1) // (2 * DEPTHS)} %" for part in range(DEPTHS)]
    for name, axes in zip(names, panels, strict=True):
        own = by_rule(chosen)[name]
        shares = np.stack([_by_depth(own, length) for length in lengths], axis=1)
        draw_heat(
            axes,
            shares,
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
    figure.axes[-1].axhline(chance(chosen), color="white", linewidth=1.5)
    figure.axes[-1].axhline(chance(chosen), color="black", linewidth=0.6)
    figure.supxlabel("length (tokens)", fontsize="medium")
    figure.supylabel("depth in the text", fontsize="medium")
    note_setting(figure, short_setting(chosen))
    return figure


@register_plot(
    "retrieval_bits",
    order=24,
    measure="retrieval",
    caption="Share of needles found against the bits per byte of the same texts, above "
    "those of the scaling that has the fewest (logarithmic above 0.01). 95% intervals "
    "are over needles (Wilson) and over texts. Bits mislead where a point stands left "
    "of a higher one.",
)
def draw_retrieval_bits(records: list[Record]) -> Figure | None:
    """Draw a panel for each filler and length, with a point for each rule."""
    chosen = usable(records)
    fillers = sorted({f for score in scores(chosen).values() for f in score.bits})
    if not fillers:
        return None
    lengths = sorted({_length(record) for record in chosen})
    styles = looks_in_turn(dict.fromkeys(rule for rule, _ in scores(chosen)))
    shown = [(filler, length) for filler in fillers for length in lengths]
    titles = [f"{filler}, {length} tokens" for filler, length in shown]
    figure, panels = new_panels(titles, len(lengths), HIGH, share=False)
    for place, ((filler, length), axes) in enumerate(zip(shown, panels, strict=True)):
        own = {
            rule: [record for record in some if _length(record) == length]
            for rule, some in by_rule(chosen).items()
        }
        _draw_points(axes, own, filler, styles)
        axes.axhline(chance(chosen), **CHANCE)
        axes.set_ylim(0, 1)
        axes.set_xscale("symlog", linthresh=LINEAR)
        axes.margins(x=0.1)
        axes.tick_params(labelleft=place % len(lengths) == 0)
        axes.xaxis.set_major_formatter("{x:g}")
        if place >= len(shown) - len(lengths):
            axes.set_xlabel("bits per byte\nabove the best")
    entries = {name: _entry(look) for name, look in styles.items()}
    legend_below(figure, {**entries, "chance": Line2D([], [], **CHANCE)})
    figure.supylabel("share of needles found", fontsize="medium")
    note_setting(figure, short_setting(chosen))
    return figure


def _draw_points(
    axes: Axes,
    records: Mapping[str, Sequence[Record]],
    filler: str,
    styles: dict[str, Look],
) -> None:
    """Draw the point of every rule, from its records of one length."""
    bits = pd.DataFrame(
        {
            (rule, record.spec.seed): row.value
            for rule, own in records.items()
            for record in own
            for row in record.rows
            if row.quantity == filler + BITS and row.value is not None
        }.items(),
        columns=["at", "bits"],
    )
    if bits.empty:
        return
    bits[["rule", "seed"]] = bits["at"].tolist()
    by_seed = bits.pivot_table(index="seed", columns="rule", values="bits")
    above = by_seed.sub(by_seed[by_seed.mean().idxmin()], axis=0)
    for name, look in styles.items():
        own = records.get(name, [])
        if name not in above:
            continue
        found, asked = (
            sum(_counts(record, counts, filler).sum() for record in own)
            for counts in ("found", "asked")
        )
        low, high = wilson(found, asked)
        share, width = found / asked, half_width(above[name])
        axes.errorbar(
            above[name].mean(),
            share,
            xerr=width if np.isfinite(width) else None,
            yerr=[[share - low], [high - share]],
            color=look.colour,
            marker=look.marker,
            markersize=5,
            markeredgecolor="w",
            elinewidth=0.7,
        )


def _entry(look: Look) -> Line2D:
    return Line2D([], [], color=look.colour, marker=look.marker, linestyle="")


def _length(record: Record) -> int:
    return int(str(record.spec.setting["read_length"]))


def _counts(record: Record, name: str, filler: str) -> Array:
    """Return the counts of a filler, `(kind, depth)`."""
    names = str(record.spec.setting["fillers"]).replace(" ", "").split(",")
    names = [*dict.fromkeys(filter(None, names))]
    return np.array(record.arrays[name], dtype=np.float64)[names.index(filler)]


def _by_depth(records: Sequence[Record], length: int) -> Array:
    """Return the share found at each depth, `(depth,)`; NaN without any."""
    own = [record for record in records if _length(record) == length]
    if not own:
        return np.full(DEPTHS, np.nan)
    found, asked = (
        np.sum([np.array(record.arrays[name]) for record in own], axis=(0, 1, 2))
        for name in ("found", "asked")
    )
    return found / asked
