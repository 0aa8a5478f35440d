"""Extrapolation: bits per byte against the test length."""

from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.analysis.plots.lines import draw_lines
from posenc_compare.analysis.plots.records import rows_of, training_length, usable
from posenc_compare.analysis.plots.style import (
    MIDDLE,
    add_legend,
    in_style,
    line_width,
    looks,
    mark_training,
    new_figure,
    power_ticks,
    safe,
)


@in_style
def draw_extrapolation(records: list[dict[str, Any]]) -> Figure | None:
    """Draw the mean over seeds as a thick line and every seed as a thin one.

    A line that ends at a bar belongs to a scheme that defines no further positions;
    the legend says how many it does.
    """
    styles = looks(records)
    chosen = usable(records, "extrapolation")
    rows = rows_of(chosen, styles)
    rows = rows[(rows["quantity"] == "bits_per_byte") & rows["x"].gt(0)]
    defined = rows.dropna(subset="value")
    if defined.empty:
        return None
    figure = new_figure(line_width(rows["label"].nunique()), 2.5)
    axes = figure.subplots()
    means = defined.groupby(["label", "x"], sort=False, as_index=False)["value"].mean()
    several = defined["seed"].nunique() > 1
    if several:
        sns.lineplot(
            defined,
            x="x",
            y="value",
            hue="label",
            palette={label: look.colour for label, look in styles.items()},
            units="seed",
            estimator=None,
            legend=False,
            linewidth=0.5,
            alpha=0.35,
            ax=axes,
        )
    handles = draw_lines(axes, means, styles, markers=True)
    missing = rows[rows["value"].isna()].groupby("label", sort=False)["note"].first()
    for label, note in missing.items():
        look = styles[str(label)]
        curve = means[means["label"] == label].sort_values("x")
        text = f"{look.text} ({safe(str(note)) or 'not defined further'})"
        if curve.empty:
            handles.append(Line2D([], [], color=look.colour, label=text))
            continue
        axes.plot(
            curve["x"].iloc[-1],
            curve["value"].iloc[-1],
            marker="|",
            markersize=13,
            markeredgewidth=1.8,
            color=look.colour,
            zorder=5,
        )
        for handle in handles:
            if handle.get_label() == look.text:
                handle.set_label(text)
    if several:
        handles.append(
            Line2D([], [], color=MIDDLE, linewidth=0.5, label="thin: one seed")
        )
    _name_axes(axes, rows, chosen)
    add_legend(figure, handles)
    return figure


def _name_axes(axes: Any, rows: pd.DataFrame, chosen: list[dict[str, Any]]) -> None:
    power_ticks(axes, rows["x"].min(), rows["x"].max())
    mark_training(axes, map(training_length, chosen))
    axes.set_xlabel("test length (bytes)")
    axes.set_ylabel("bits per byte")
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
