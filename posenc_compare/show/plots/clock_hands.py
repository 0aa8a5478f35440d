"""Clock hands: how far a scheme rotates each pair of channels."""

import math
import textwrap

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.records.record import Record
from posenc_compare.show.frame import usable
from posenc_compare.show.plots import frames
from posenc_compare.show.plots.frames import Array
from posenc_compare.show.plots.panels import legend_below, note_seed
from posenc_compare.show.plots.paper import columns_of
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import FAINT, looks, new_figure

HANDS = 8  # positions
WIDTH, HIGH = 1.1, 1.35  # inches of a clock at least, and of a row of them
TALL = 8.4  # inches of all rows, at most
LETTERS = 15  # of a line above a clock
PACE = 0.02  # radians between a hand and one that turns evenly
ROUND = 2e-3  # of a radius; records keep four digits of a number


@register_plot(
    "clock_hands",
    order=80,
    caption="How far a scheme rotates pairs of channels at the first positions: of "
    "queries and keys, or of the vector it adds; above each clock, the positions in a "
    "full turn. "
    "Hands start on the right and turn anticlockwise.",
)
def draw_clock_hands(records: list[Record]) -> Figure | None:
    """Draw angles as clock hands, a row per scheme, from fast to slow pairs.

    Later positions have longer hands, so that those of slow pairs do not hide each
    other. Angles run anticlockwise from the right, as in mathematics.
    """
    import seaborn as sns

    styles, chosen = looks(records), usable(records, "portrait")
    codes, rotated = (frames.arrays_of(chosen, k, styles) for k in ("code", "angles"))
    even = ((label, angles_of_code(seeds[0])) for label, seeds in codes.items())
    angles = {label: found for label, found in even if found is not None}
    angles |= {k: seeds[0] for k, seeds in rotated.items() if seeds[0].ndim == 2}
    if not angles:
        return None
    groups = frames.equal_groups({k: angles[k] for k in styles if k in angles})
    clocks = columns_of(WIDTH, 6)
    figure = new_figure(min(HIGH * len(groups), TALL))
    polar = {"projection": "polar"}
    grid = figure.subplots(len(groups), clocks, squeeze=False, subplot_kw=polar)
    colours = sns.color_palette("viridis", HANDS)
    for row, group in zip(grid, groups, strict=True):
        turned = angles[group[0]]
        pairs = turned.shape[1]
        kept = np.linspace(0, pairs - 1, min(clocks, pairs)).round().astype(int)
        for axes in row[len(kept) :]:
            axes.remove()
        names = frames.joined([styles[label].text for label in group])
        for axes, pair in zip(row, kept, strict=False):
            hands = turned[:HANDS, pair]
            lengths = np.linspace(0.55, 1, len(hands))
            for angle, length, colour in zip(hands, lengths, colours, strict=False):
                ends = [angle, angle], [0, length]
                axes.plot(*ends, ".-", color=colour, markevery=[1])
            title = f"pair {pair}\n{_period(turned[:, pair])}"
            name = f"{textwrap.fill(names, LETTERS)}\n" if pair == 0 else ""
            axes.set_title(name + title, loc="left", fontsize=6.5, pad=2)
            axes.set(ylim=(0, 1.05), xticks=[], yticks=[])
            axes.spines["polar"].set_color(FAINT)
    hands = {str(i): Line2D([], [], color=one) for i, one in enumerate(colours)}
    legend_below(figure, hands, title="position; hands turn anticlockwise")
    note_seed(figure, chosen, "before training")
    return figure


def angles_of_code(code: Array) -> Array | None:
    """Return the angles of a code `(position, channel)`, if pairs turn evenly.

    The sine is the first channel of a pair, as in the sinusoids of the Transformer.
    Angles are counted from the first position.

    Returns:
        `(position, pair)` radians; None if any pair leaves its circle or its pace.
    """
    if code.ndim != 2 or not np.isfinite(code).all() or code.shape[1] < 2:
        return None
    sine, cosine = code[:, :-1:2], code[:, 1::2]
    radius = np.hypot(sine, cosine)
    if not np.allclose(radius, radius[:1], rtol=ROUND) or not radius.all():
        return None
    angles = np.unwrap(np.arctan2(sine, cosine), axis=0)
    angles = angles - angles[:1]
    even = angles[-1] * np.linspace(0, 1, len(angles))[:, None]
    return angles if np.allclose(angles, even, rtol=0, atol=PACE) else None


def _period(angles: Array) -> str:
    """Return how many positions a full rotation takes, in words."""
    rotated = abs(angles[-1] - angles[0])
    if not rotated > 0:
        return "no rotation"
    positions = 2 * math.pi * (len(angles) - 1) / rotated
    positions = float(f"{positions:.3g}")  # records keep four digits of an angle
    digits = 1 if positions < 100 else 0
    return f"{positions:,.{digits}f} positions"
