"""Codes: the vector that each absolute scheme adds at each position."""

import math
import textwrap

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from posenc_compare.records.record import Record
from posenc_compare.show.frame import usable
from posenc_compare.show.plots import frames
from posenc_compare.show.plots.frames import Array
from posenc_compare.show.plots.panels import SMALL, add_bar, draw_heat, note_seed
from posenc_compare.show.plots.paper import columns_of
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import FAINT, looks, new_figure

FEW = 13  # colours of a map, for noise takes many bytes
LETTERS = 28  # of a line above a map
HIGH = 8.0  # inches of all rows
PAIRS = 64  # of neighbouring channels that a map has room for


@register_plot(
    "codes",
    order=40,
    caption="The vector that each absolute scheme adds at each position, over its "
    "largest number (max), and the cosine of the codes of two positions; grey where "
    f"there is none. Of wide codes, {PAIRS} evenly spaced pairs of channels are shown, "
    "or one copy of channels that repeat, without zeros behind the last copy.",
)
def draw_codes(records: list[Record]) -> Figure | None:
    """Draw every code by position and channel, and its similarity by two positions."""
    import seaborn as sns

    styles, chosen = looks(records), usable(records, "portrait")
    found = frames.arrays_of(chosen, "code", styles)
    codes = {label: seeds[0] for label, seeds in found.items()}
    if not codes:
        return None
    groups = frames.equal_groups(codes)
    across = columns_of(3.4, min(2, len(groups)))
    down = math.ceil(len(groups) / across)
    figure = new_figure(min(1.3, HIGH / down) * down + 0.3)
    widths = [2.4, 1] * across
    grid = figure.subplots(down, 2 * across, squeeze=False, width_ratios=widths)
    pairs, few = grid.reshape(-1, 2), sns.color_palette("vlag", FEW)
    for axes in pairs[len(groups) :].flat:
        axes.remove()
    positions = max(map(len, codes.values()))
    for i, (group, (left, right)) in enumerate(zip(groups, pairs, strict=False)):
        code = codes[group[0]]
        largest = np.nanmax(np.abs(code))
        kept = channels_of(code)
        values = code[:, kept] / (largest or 1.0)
        draw_heat(left, values, (few, -1.0, 1.0), square=False)
        step = min(32, max(1, len(kept) // 4))
        left.set_xticks(np.arange(0, len(kept), step) + 0.5, kept[::step])
        draw_heat(right, cosines(code), ("vlag", -1.0, 1.0), square=False)
        title = f"{frames.joined([styles[k].text for k in group])}, max {largest:.3g}"
        left.set_title(textwrap.fill(title, LETTERS), loc="left", fontsize=SMALL)
        right.set_title("cosine", loc="left", fontsize=SMALL)
        below = i + across >= len(groups)
        for axes, label in ((left, "channel"), (right, "position")):
            axes.set(ylim=(positions, 0), facecolor=FAINT)
            axes.set_xlabel(label if below else "")
            axes.tick_params(labelbottom=below, labelleft=axes is left)
        if len(kept) < min(2 * PAIRS, code.shape[1]):
            left.tick_params(labelbottom=True)  # which are not those of others
        right.set_xlim(0, positions)
        left.set_ylabel("position" if i % across == 0 else "")
    place = {"ax": [*pairs[: len(groups)].flat], "shrink": 0.5, "aspect": 30}
    add_bar(figure, pairs[0, 0], "value / largest, or cosine", **place)
    note_seed(figure, [r for r in chosen if "code" in r.arrays], "before training")
    return figure


def channels_of(code: Array) -> NDArray[np.int64]:
    """Return the channels of a code `(position, channel)` that are drawn.

    They are all; or, of wide codes, those before copies and zeros that fill the rest,
    or evenly spaced pairs of neighbours. So no pixel mixes a sine and a cosine.
    """
    width = code.shape[1]
    if width <= 2 * PAIRS:
        return np.arange(width)
    first = np.unique(np.nan_to_num(code), axis=1, return_index=True)[1]
    period = 1 + max((i for i in first if code[:, i].any()), default=0)
    later = np.arange(period, width)
    same = np.equal(code[:, later], code[:, later % period]).all(axis=0)
    if period <= 2 * PAIRS and (same | ~code[:, later].any(axis=0)).all():
        return np.arange(period)
    even = np.linspace(0, width // 2 - 1, PAIRS).round().astype(np.int64) * 2
    return np.stack([even, even + 1], axis=1).flatten()


def cosines(code: Array) -> Array:
    """Return the cosine of codes `(position, channel)`, `(position, position)`.

    A code of zeros has none, NaN.
    """
    length = np.linalg.norm(code, axis=1, keepdims=True)
    unit = np.divide(code, length, out=np.full_like(code, np.nan), where=length > 0)
    return unit @ unit.T
