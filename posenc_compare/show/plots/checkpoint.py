"""Checkpoint: a trained model, evaluated at each length under every scaling it has."""

import textwrap

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.records.record import Record
from posenc_compare.show.frame import Frame
from posenc_compare.show.plots.frames import (
    in_bits,
    interval,
    merge_equal,
    rows_of,
    usable,
)
from posenc_compare.show.plots.lines import Lines
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import MIDDLE, looks, looks_in_turn
from posenc_compare.show.setting import short_setting

PLAIN, STATIC = "as trained", "static "  # static: with the factor of the longest length
EACH, LONGEST = "factor of each length", "factor of the longest"
PLAIN_BITS, READ_BITS, LEVEL = (
    "bits_per_byte",
    "read_bits_per_byte",
    "sliding_bits_per_byte",
)
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
def draw_checkpoint(records: list[Record]) -> Figure | None:
    """Draw the bits of checkpoints, or of trained networks that have scalings.

    Factors of each length, and of the longest one, have panels of their own; so does
    each model. Sliding windows of the trained length are where heights count from, on
    a logarithmic axis, if all curves lie above them; else they are a dotted line.
    """
    styles = looks(records)
    chosen, unit = usable(records, "checkpoint"), "tokens"
    if not chosen:
        trained = in_bits(records)
        chosen, unit = [r for r in trained if READ_BITS in r.quantities], "bytes"
    every = rows_of(chosen, styles).dropna(subset="value")
    levels = every[every["quantity"] == LEVEL].groupby("scheme")["value"].first()
    rows = _panels(every[every["x"] > 0])
    if rows.empty:
        return None
    floors = rows["model"].map(levels)  # NaN where nothing slides
    keys = ["panel", "scheme", "x"]
    lows = rows.groupby(keys)["value"].transform(lambda some: _least(some))
    above = bool((lows > floors).all())
    if above:
        rows = rows.assign(value=rows["value"] - floors)
    rules = looks_in_turn([PLAIN, *sorted(set(rows["scheme"]) - {PLAIN})])
    rows, rules = merge_equal(rows.assign(case=rows["panel"]), rules)
    lines = Lines(rows, rules, height=2.2)
    models = rows.drop_duplicates(["panel", "model"])
    for title, model in models[["panel", "model"]].itertuples(index=False):
        if not above and model in levels:
            lines.panels[title].axhline(levels[model], **DOTTED)
            lines.entries[WINDOWS] = Line2D([], [], **DOTTED)
    lines.length_axis()
    if above:  # intervals may reach to 0
        lines.first.set_ylim(0.7 * rows.groupby(keys)["value"].mean().min())
    scale = lines.value_axis()
    settings = [one.spec.setting for one in chosen]
    lengths = [one.get("trained", one.get("length")) for one in settings]
    lines.mark_training(float(str(length)) for length in lengths)
    bits = "bits above\nsliding windows" if above else "bits per byte"
    lines.finish(f"test length ({unit})", bits + scale, short_setting(chosen))
    return lines.figure


def _least(values: Frame) -> float:
    """Return the lower end of the interval of a mean; of one value, that itself."""
    low, _ = interval(values)
    return values.mean() if pd.isna(low) else low


def _panels(rows: Frame) -> Frame:
    """Return the rows of each panel, `scheme` being the scaling, or as trained.

    A panel whose factors are all of one length, the longest, is left out.

    Args:
        rows: of all models, by the text of their look in `scheme`.
    """
    plain = rows[rows["quantity"] == PLAIN_BITS].assign(case=PLAIN)
    read = rows[rows["quantity"] == READ_BITS]
    parts = []
    for model, own in read.groupby("scheme", sort=False):
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
        several = read["scheme"].nunique() > 1
        for title, some in found.items():
            words = [name] * several + [title] * (len(found) > 1)
            part = pd.concat(some).assign(model=model, panel="\n".join(words))
            parts.append(part.assign(scheme=part["case"]))
    columns = ["scheme", "x", "seed", "value", "model", "panel"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)
