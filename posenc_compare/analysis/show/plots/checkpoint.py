"""Checkpoint: a trained model, read at each length under every scaling it has."""

import textwrap
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.alike import drawn_once
from posenc_compare.analysis.show.plots.extrapolation import wide_axis
from posenc_compare.analysis.show.plots.frames import Frame, means_table, usable
from posenc_compare.analysis.show.plots.lines import draw_lines, shade
from posenc_compare.analysis.show.plots.panels import (
    add_legends,
    new_panels,
    outer_labels,
)
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import (
    MIDDLE,
    looks,
    looks_of,
    mark_training,
    power_ticks,
    safe,
)

PLAIN = "as trained"
STATIC = "static "  # before the rules that take the factor of the longest length
EACH, LONGEST = "factor of each length", "factor of the longest"
PLAIN_BITS, READ_BITS = CURVES = ("bits_per_byte", "read_bits_per_byte")
NAME = 34  # characters of a line of the name of a checkpoint
LEVEL = "sliding windows of the trained length"


@register_plot(
    "checkpoint",
    order=22,
    measure="checkpoint",
    caption="Bits per byte of a checkpoint against the test length, read under every "
    "scaling: means over windows of the text with their 95% intervals. Where the axis "
    "says so, those of windows of the trained length that slide are taken off.",
)
def draw_checkpoint(records: list[Record]) -> Figure | None:
    """Draw the mean over windows: factors of each length, and of the longest one.

    Where one length alone is longer than the trained one, both are the same there, and
    the second panel stands alone. Each checkpoint, and each text it is read on, has
    panels of its own. Windows of the trained length that slide over the tokens of the
    longest one are where heights count from, on a logarithmic axis; where a curve
    comes down to its own, they are a dotted grey line instead.
    """
    styles = looks(records)
    chosen = usable(records, "checkpoint")
    rows = means_table(chosen, styles).dropna(subset="value")
    slides = rows["quantity"] == "sliding_bits_per_byte"
    levels = rows[slides].groupby("scheme")["value"].first()
    curved = rows[rows["quantity"].isin(CURVES)]
    if PLAIN_BITS not in curved["quantity"].values:
        return None
    floors = curved["scheme"].map(levels)  # nan where nothing slides
    above = (curved["value"] - curved["half_width"].fillna(0) > floors).all()
    if above:
        curved = curved.assign(value=curved["value"] - floors)
    parts = _parts(curved, {look.text: label for label, look in styles.items()})
    cases = [PLAIN, *_moving(curved)["case"].unique()]
    families = ["none" if case == PLAIN else "" for case in cases]  # it comes first
    colours = looks_of(dict(zip(cases, families, strict=True)))
    figure, panels = new_panels(dict.fromkeys(parts, cases))
    handles: list[list[Line2D]] = []
    common: list[Line2D] = []
    for axes, part in zip(panels, parts.values(), strict=True):
        curves = part.assign(scheme=part["case"]).drop(columns=["quantity", "case"])
        own, curves = drawn_once(colours, curves)
        handles.append(draw_lines(axes, curves, own, markers=True))
        level = [] if above else levels[levels.index.isin(part["scheme"])]
        common = max(common, _named(axes, rows, chosen, level), key=len)
    bits = _excess_axis(panels[0]) if above else wide_axis(panels[0])
    add_legends(figure, panels, handles, [*common, *shade(rows)])
    outer_labels(panels, "test length (tokens)", bits)
    say_setting(figure, chosen)
    return figure


def _parts(curved: Frame, labels: dict[str, str]) -> dict[str, Frame]:
    """Return the curves of each panel by its title.

    Args:
        curved: of all checkpoints.
        labels: of each, by its text.
    """
    found: dict[str, Frame] = {}
    texts = curved["scheme"].unique()
    for text in texts:
        own = curved[curved["scheme"] == text]
        plain = own[own["quantity"] == PLAIN_BITS].assign(case=PLAIN)
        read = own[own["quantity"] == READ_BITS]
        static, moving = read[read["case"].str.startswith(STATIC)], _moving(own)
        longest = read[read["x"] == plain["x"].max()]
        held = static.assign(case=static["case"].str.removeprefix(STATIC))
        parts: dict[str, Frame] = {}
        if moving["x"].nunique() > 1 or static.empty:
            parts[EACH] = pd.concat([plain, moving])
        if not static.empty:
            parts[LONGEST] = pd.concat([plain, held, longest])
        label = labels[text]
        whole = len(label) <= NAME * 3  # texts tell apart labels that begin alike
        name = textwrap.fill(safe(label, NAME * 3) if whole else text, NAME)
        for title, part in parts.items():
            words = [name] * (len(texts) > 1) + [title] * (len(parts) > 1)
            found["\n".join(words)] = part
    return found


def _moving(curved: Frame) -> Frame:
    """Return the rows of scalings that take the factor of each length."""
    read = curved[curved["quantity"] == READ_BITS]
    return read[~read["case"].str.startswith(STATIC)]


def _named(
    axes: Axes, rows: Frame, chosen: list[Record], level: Sequence[float]
) -> list[Line2D]:
    """Give the axes their scale; return legend entries of what is no curve."""
    lengths = rows["x"].dropna()
    power_ticks(axes, lengths.min(), lengths.max())
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    trained = {float(str(r.spec.setting["trained"])) for r in chosen}
    found = [mark_training(axes, trained)]
    for value in level:
        line = {"color": MIDDLE, "linestyle": ":", "linewidth": 1.0}
        axes.axhline(float(value), zorder=1, **line)
        found.append(Line2D([], [], label=LEVEL, **line))
    return found


def _excess_axis(axes: Axes) -> str:
    """Make the axis logarithmic, with two or three ticks a decade; return its label."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    return f"bits per byte above\n{LEVEL}"
