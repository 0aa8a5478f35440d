"""Clock hands: how far a scheme rotates each pair of channels."""

import math
import textwrap

import numpy as np
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from posenc_compare.records.record import Record
from posenc_compare.show.plots.frames import (
    Array,
    arrays_of,
    equal_groups,
    joined,
    usable,
)
from posenc_compare.show.plots.panels import HIGH, legend_below, note_seed
from posenc_compare.show.plots.paper import PAGE, columns_of, paper_width
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import FAINT, looks, new_figure

HANDS = 8  # positions
CLOCKS = 6  # pairs, where there is room
WIDTH, TITLES = 1.1, 0.42  # inches of a clock at least, and of what is above it
PACE = 0.02  # radians between a hand and one that turns evenly
ROUND = 2e-3  # of a radius; records keep four digits of a number


@register_plot(
    "clock_hands",
    order=80,
    caption="How far a scheme rotates pairs of channels at the first positions: of "
    "queries and keys, or of the vector it adds; above, the positions of a rotation.",
)
def draw_clock_hands(records: list[Record]) -> Figure | None:
    """Draw hands at positions 0 ... 7, a row per scheme, from fast to slow pairs.

    Later positions have longer hands, so that those of slow pairs do not hide each
    other. Angles run against the clock from the right, as in mathematics.
    """
    styles, chosen = looks(records), usable(records, "portrait")
    angles = {
        label: found
        for label, seeds in arrays_of(chosen, "code", styles).items()
        if (found := angles_of_code(seeds[0])) is not None
    }
    for label, seeds in arrays_of(chosen, "angles", styles).items():
        if seeds[0].ndim == 2:
            angles[label] = seeds[0]
    if not angles:
        return None
    groups = equal_groups({label: angles[label] for label in styles if label in angles})
    clocks = columns_of(WIDTH, CLOCKS)
    room = paper_width(PAGE) / clocks
    figure = new_figure(PAGE, min(room + TITLES, HIGH / len(groups)) * len(groups))
    grid = figure.subplots(len(groups), clocks, squeeze=False)
    for row, group in zip(grid, groups, strict=True):
        turned = angles[group[0]]
        pairs = turned.shape[1]
        kept = np.linspace(0, pairs - 1, min(clocks, pairs)).round().astype(int)
        for axes in row[len(kept) :]:
            axes.remove()
        for axes, pair in zip(row, kept, strict=False):
            _clock(axes, turned[:HANDS, pair])
            title = f"pair {pair}\n{_period(turned[:, pair])}"
            if pair == 0:
                name = joined([styles[label].text for label in group])
                title = f"{textwrap.fill(name, int(15 * room))}\n{title}"
            axes.set_title(title, loc="left", fontsize=6.5)
    hands: dict[str, Artist] = {
        f"{position}": Line2D([], [], color=colour, linewidth=1.6)
        for position, colour in enumerate(sns.color_palette("viridis", HANDS))
    }
    legend_below(figure, hands, title="position")
    note_seed(figure, chosen, "before training")
    return figure


def angles_of_code(code: Array) -> Array | None:
    """Return the angles of pairs of channels, if each turns evenly on a circle.

    The sine is the first channel of a pair, as in the sinusoids of the Transformer.
    Angles are counted from the first position.

    Args:
        code: `(position, channel)`.

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


def _clock(axes: Axes, angles: Array) -> None:
    """Draw a hand for each position, later ones longer."""
    axes.add_patch(Circle((0, 0), 1, facecolor="none", edgecolor=FAINT, linewidth=0.8))
    axes.plot([0, 1], [0, 0], color=FAINT, linewidth=0.6)
    length = np.linspace(0.55, 1, len(angles))
    tips = zip(length * np.cos(angles), length * np.sin(angles), strict=True)
    for (x, y), colour in zip(tips, sns.color_palette("viridis", HANDS), strict=False):
        axes.plot(
            [0, x], [0, y], color=colour, marker="o", markevery=[1], markersize=2.5
        )
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal", anchor="N")
    axes.set_axis_off()


def _period(angles: Array) -> str:
    """Return how many positions a full rotation takes, in words."""
    rotated = abs(angles[-1] - angles[0])
    step = rotated / (len(angles) - 1) if len(angles) > 1 else math.nan
    if not step > 0:
        return "no rotation"
    positions = 2 * math.pi / step
    digits = 1 if positions < 100 else 0
    return f"{positions:,.{digits}f} positions"
