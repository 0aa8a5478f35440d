"""Checkpoint: a trained model, evaluated at each length under every scaling it has."""

import textwrap

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.show import frame
from posenc_compare.show.frame import Frame, Numbers, by_scheme, rows_of
from posenc_compare.show.plots import frames
from posenc_compare.show.plots.lines import Lines
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, looks, looks_of_scalings

PLAIN, STATIC = "as trained", "static "  # static: with the factor of the longest length
EACH, LONGEST = "factor of each length", "factor of the longest"
BITS, SCALED = "bits_per_byte", "read_bits_per_byte"
SLIDING = "sliding_bits_per_byte"
WINDOWS = "sliding windows of the trained length"
DOTTED = {"color": MIDDLE, "linestyle": ":", "linewidth": 1.0}
NAME = 34  # characters of a line of the name of a checkpoint


@register_plot(
    "checkpoint",
    order=22,
    measure="checkpoint",
    caption="Bits per byte of a trained model against the test length, under every "
    "scaling: means with their 95% intervals. Where the axis says so, the bits of "
    "sliding windows of the trained length are subtracted.",
)
def draw_checkpoint(records: Numbers) -> Figure | None:
    """Draw bits per byte of checkpoints, or of trained networks under scalings.

    Factors of each length, and of the longest one, have panels of their own; so does
    each model. Sliding windows of the trained length are where heights count from, on
    a logarithmic axis, if all curves lie above them; else they are a dotted line.
    """
    chosen, unit = frame.usable(records, "checkpoint"), "tokens"
    if not chosen:
        trained, unit = frames.in_bits(records), "bytes"
        chosen = [one for one in trained if SCALED in one.quantities]
    every = frames.means_of(records, chosen, looks(records)).dropna(subset="mean")
    levels = by_scheme(every[every["quantity"] == SLIDING])
    means = _panels(every[every["x"] > 0])
    if means.empty:
        return None
    slides = [mean for mean in rows_of(means) if mean.model in levels]
    heights = [frame.less(mean, levels[mean.model]) for mean in slides]
    counted: Frame = pd.DataFrame(heights, columns=means.columns)
    low = counted["mean"] - counted["half_width"].fillna(0.0)
    above = len(low) == len(means) and bool((low > 0).all())
    means = counted if above else means
    scalings = [PLAIN, *sorted(set(means["scheme"]) - {PLAIN})]
    means, styles = frames.merge_equal(means, looks_of_scalings(scalings))
    lines = Lines(means, styles, width=2.2)
    models = dict(zip(means["panel"], means["model"], strict=True))
    for axes, title, _ in lines.facets:
        if models[title] in levels and not above:
            axes.axhline(levels[models[title]].mean, **DOTTED)
            lines.entries[WINDOWS] = Line2D([], [], **DOTTED)
    lines.length_axis()
    if above:  # intervals may reach to 0
        lines.axes[0].set_ylim(0.7 * means["mean"].min())
    scale = lines.value_axis()
    lines.mark_training(chosen)
    bits = "bits per byte above\nsliding windows" if above else "bits per byte"
    lines.finish(f"test length ({unit})", bits + scale, chosen)
    return lines.figure


def _panels(rows: Frame) -> Frame:
    """Return the means of each panel, `scheme` being the scaling, or as trained.

    A panel whose factors are all of one length, the longest, is left out. The given
    `scheme` is the text of the look of a model.
    """
    scaled = rows[rows["quantity"] == SCALED]
    plain = rows[rows["quantity"] == BITS].assign(case=PLAIN)
    parts = [pd.DataFrame(columns=[*rows.columns, "model", "panel"])]
    for model, own in scaled.groupby("scheme", sort=False):
        base = plain[plain["scheme"] == model]
        fixed = own["case"].str.startswith(STATIC)
        held, moving = own[fixed], own[~fixed]
        found = {}
        if moving["x"].nunique() > 1 or held.empty:
            found[EACH] = [base, moving]
        if not held.empty:
            held = held.assign(case=held["case"].str.removeprefix(STATIC))
            found[LONGEST] = [base, held, moving[moving["x"] == base["x"].max()]]
        name = textwrap.fill(str(model), NAME)
        several = scaled["scheme"].nunique() > 1
        for title, some in found.items():
            words = [name] * several + [title] * (len(found) > 1)
            part = pd.concat(some).assign(model=model, panel="\n".join(words))
            parts.append(part.assign(scheme=part["case"]))
    return pd.concat(parts[1:] or parts)
