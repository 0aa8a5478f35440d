"""Clock hands: how far a rotary scheme, or a sinusoid, turns each pair of channels."""

import math

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from numpy.typing import NDArray

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.alike import groups_alike, joined
from posenc_compare.analysis.show.plots.frames import arrays_of, usable
from posenc_compare.analysis.show.plots.paper import (
    across,
    paper_width,
    row_height,
    wrapped,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_seed
from posenc_compare.analysis.show.plots.style import (
    FAINT,
    MIDDLE,
    PAGE,
    Look,
    add_legend,
    looks,
    new_figure,
)

HANDS = 8  # positions
CLOCKS = 6  # pairs, where there is room
WIDTH, TITLES = 1.1, 0.42  # inches of a clock at least, and of what is above it
PACE = 0.02  # radians between a hand and one that turns evenly
ROUND = 2e-3  # of a radius; records keep four digits of a number
COLOURS = "viridis"
LETTERS = 6.5  # points
GAP = 0.1  # inches between the titles of two clocks


@register_plot(
    "clock_hands",
    order=80,
    caption="How far a scheme turns pairs of channels at the first positions: of "
    "queries and keys, or of the vector it adds.",
)
def draw_clock_hands(records: list[Record]) -> Figure | None:
    """Draw hands at positions 0 ... 7, a row per scheme, from fast to slow pairs.

    Later positions have longer hands, so that those of slow pairs do not hide each
    other. Angles run against the clock from the right, as in mathematics.
    """
    styles = looks(records)
    found = _angles(usable(records, "portrait"), styles)
    if not found:
        return None
    clocks = across(WIDTH, CLOCKS)
    room = paper_width(PAGE) / clocks - GAP
    height = row_height(paper_width(PAGE) / clocks + TITLES, len(found))
    figure = new_figure(PAGE, height * len(found))
    grid = figure.subplots(len(found), clocks, squeeze=False)
    for row, (scheme, angles) in zip(grid, found, strict=True):
        pairs = angles.shape[1]
        kept = np.linspace(0, pairs - 1, min(clocks, pairs)).round().astype(int)
        for axes in row[len(kept) :]:
            axes.remove()
        for axes, pair in zip(row, kept, strict=False):
            axes.set_axis_off()
            _clock(axes, angles[:HANDS, pair])
            title = f"pair {pair}\n{_turn(angles[:, pair])}"
            if pair == 0:
                title = f"{wrapped(scheme, room, LETTERS)}\n{title}"
            axes.set_title(title, loc="left", fontsize=LETTERS)
    handles = [
        Line2D([], [], color=colour, linewidth=1.6, label=f"{position}")
        for position, colour in enumerate(sns.color_palette(COLOURS, HANDS))
    ]
    add_legend(figure, handles, title="position")
    say_seed(figure, usable(records, "portrait"), "before training")
    return figure


def _angles(
    records: list[Record], styles: dict[str, Look]
) -> list[tuple[str, NDArray[np.float64]]]:
    """Return angles, `(position, pair)`, and the names of all that have them."""
    angles = {
        look.text: seeds[0]
        for look, seeds in arrays_of(records, "angles", styles)
        if seeds[0].ndim == 2
    }
    for look, seeds in arrays_of(records, "code", styles):
        turned = angles_of_code(seeds[0])
        if turned is not None:
            angles.setdefault(look.text, turned)
    names = [look.text for look in styles.values() if look.text in angles]
    groups = groups_alike(names, [angles[name] for name in names])
    return [(joined(group), angles[group[0]]) for group in groups]


def angles_of_code(code: NDArray[np.float64]) -> NDArray[np.float64] | None:
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


def _clock(axes: Axes, angles: NDArray[np.float64]) -> None:
    axes.add_patch(Circle((0, 0), 1, facecolor="none", edgecolor=FAINT, linewidth=0.8))
    axes.plot([0, 1], [0, 0], color=FAINT, linewidth=0.6)
    length = np.linspace(0.55, 1, len(angles))
    tips = pd.DataFrame(
        {
            "x": length * np.cos(angles),
            "y": length * np.sin(angles),
            "position": range(len(angles)),
        }
    )
    colours = sns.color_palette(COLOURS, HANDS)[: len(angles)]
    same = {"x": "x", "y": "y", "hue": "position", "palette": colours, "ax": axes}
    sns.lineplot(
        pd.concat([tips.assign(x=0.0, y=0.0), tips]),
        units="position",
        estimator=None,
        sort=False,
        legend=False,
        linewidth=1.2,
        **same,
    )
    sns.scatterplot(tips, s=8, linewidth=0, legend=False, zorder=4, **same)
    axes.plot(0, 0, marker="o", markersize=1.8, color=MIDDLE, zorder=5)
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal", anchor="N")


def _turn(angles: NDArray[np.float64]) -> str:
    """Say how many positions a full turn takes."""
    turned = abs(angles[-1] - angles[0])
    step = turned / (len(angles) - 1) if len(angles) > 1 else math.nan
    if not step > 0:
        return "does not turn"
    positions = 2 * math.pi / step
    digits = 1 if positions < 100 else 0
    return f"{positions:,.{digits}f} positions/turn"
