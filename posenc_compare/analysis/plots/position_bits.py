"""Position bits: bits per byte at every position of the longest window."""

from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from posenc_compare.analysis.plots.lines import draw_lines
from posenc_compare.analysis.plots.records import arrays_of, training_length, usable
from posenc_compare.analysis.plots.style import (
    add_legend,
    in_style,
    line_width,
    looks,
    mark_training,
    new_figure,
    power_ticks,
)

BINS_PER_OCTAVE = 4


@in_style
def draw_position_bits(records: list[dict[str, Any]]) -> Figure | None:
    """Draw the mean over seeds in bins of equal width on the logarithmic axis.

    The shade spans all seeds. A line ends where its scheme defines no position.
    """
    styles = looks(records)
    chosen = usable(records, "extrapolation")
    found = dict(arrays_of(chosen, "position_bits", styles))
    if not found:
        return None
    points = pd.concat(
        [
            binned(bits).assign(label=label, seed=seed)
            for label, seeds in found.items()
            for seed, bits in enumerate(seeds)
        ],
        ignore_index=True,
    ).dropna(subset="value")
    figure = new_figure(line_width(len(found)), 2.5)
    axes = figure.subplots()
    sns.lineplot(
        points,
        x="x",
        y="value",
        hue="label",
        palette={label: look.colour for label, look in styles.items()},
        errorbar=("pi", 100),
        err_kws={"alpha": 0.12, "linewidth": 0},
        linewidth=0,
        legend=False,
        ax=axes,
    )
    means = points.groupby(["label", "x"], sort=False, as_index=False)["value"].mean()
    handles = draw_lines(axes, means, styles, markers=False)
    power_ticks(axes, 1, max(len(bits) for seeds in found.values() for bits in seeds))
    mark_training(axes, map(training_length, chosen))
    axes.set_xlabel("position in the window (bytes)")
    axes.set_ylabel("bits per byte")
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    add_legend(figure, handles)
    return figure


def binned(bits: np.ndarray) -> pd.DataFrame:
    """Return the mean of each bin of positions `1 ... n`.

    Args:
        bits: bits at every position of a window.

    Returns:
        `x`, the geometric mean of the bin's positions, and `value`.
    """
    position = np.arange(1, len(bits) + 1)
    octave = np.floor(np.log2(position) * BINS_PER_OCTAVE + 1e-9)
    table = pd.DataFrame({"bin": octave, "x": np.log(position), "value": bits})
    means = table.groupby("bin", as_index=False)[["x", "value"]].mean()
    return means.assign(x=np.exp(means["x"]))[["x", "value"]]
