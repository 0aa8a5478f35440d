"""Position bits: bits per byte at every position of the longest window."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.alike import drawn_once
from posenc_compare.analysis.show.plots.frames import (
    Frame,
    arrays_of,
    in_bits,
    training_length,
)
from posenc_compare.analysis.show.plots.lines import (
    draw_lines,
    ended,
    mark_ends,
    shade,
)
from posenc_compare.analysis.show.plots.panels import (
    add_legends,
    groups_of,
    new_panels,
    outer_labels,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import (
    looks,
    mark_training,
    power_ticks,
)
from posenc_compare.stats.intervals import half_width

BINS_PER_OCTAVE = 2
FIRST = 8  # positions in the first bin: fewer windows say little of each


@register_plot(
    "position_bits",
    order=30,
    measure="extrapolation",
    caption="Bits per byte at every position of the longest window: means over seeds "
    "with their 95% intervals.",
)
def draw_position_bits(records: list[Record]) -> Figure | None:
    """Draw the mean over seeds in bins of equal width on the logarithmic axis.

    The shade is the interval over seeds. A line that ends at a bar belongs to a scheme
    that defines no further positions; it was tested in shorter windows.
    """
    styles = looks(records)
    chosen = in_bits(records)
    found = list(arrays_of(chosen, "position_bits", styles))
    if not found:
        return None
    points: Frame = pd.concat(
        [
            binned(bits).assign(scheme=look.text, seed=seed)
            for look, seeds in found
            for seed, bits in enumerate(seeds)
        ],
        ignore_index=True,
    ).dropna(subset="value")
    bins = points.groupby(["scheme", "x"], sort=False, as_index=False)["value"]
    means = bins.agg("mean").assign(half_width=bins.agg(half_width)["value"])
    reach = {look.text: max(map(len, seeds)) for look, seeds in found}
    before, (styles, means) = styles, drawn_once(styles, means)
    ends = {
        look.text: reach[before[label].text]
        for label, look in styles.items()
        if before[label].text in reach
    }
    longest = max(ends.values())
    short = [text for text, end in ends.items() if end < longest]
    groups = groups_of(styles, ends)
    figure, panels = new_panels(groups)
    handles = []
    for axes, texts in zip(panels, groups.values(), strict=True):
        curves = means[means["scheme"].isin(texts)]
        handles.append(draw_lines(axes, curves, styles))
        mark_ends(axes, curves, [text for text in short if text in texts], styles)
        power_ticks(axes, points["x"].min(), longest)
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    lengths = [*map(training_length, chosen)]
    trained = [mark_training(axes, lengths) for axes in panels]
    common = [ended("no further positions")] if short else []
    add_legends(figure, panels, handles, [*common, *trained[:1], *shade(means)])
    outer_labels(panels, "position in the window (bytes)", "bits per byte")
    say_setting(figure, chosen)
    return figure


def binned(bits: np.ndarray) -> Frame:
    """Return the mean of each bin of positions `1 ... n`.

    Args:
        bits: bits at every position of a window.

    Returns:
        `x`, the geometric mean of the bin's positions, and `value`.
    """
    position = np.arange(1, len(bits) + 1)
    octave = np.log2(position.clip(min=FIRST)) * BINS_PER_OCTAVE
    table: Frame = pd.DataFrame(
        {"bin": np.ceil(octave - 1e-9), "x": np.log(position), "value": bits}
    )
    means = table.groupby("bin", as_index=False)[["x", "value"]].mean()
    return means.assign(x=np.exp(means["x"]))[["x", "value"]]
