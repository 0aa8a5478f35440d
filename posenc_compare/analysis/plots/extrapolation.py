"""Extrapolation: bits per byte against the test length."""

from typing import Any

import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.analysis.plots.lines import draw_lines, ended, mark_ends
from posenc_compare.analysis.plots.records import (
    Frame,
    rows_of,
    training_length,
    usable,
)
from posenc_compare.analysis.plots.style import (
    MIDDLE,
    add_legend,
    in_style,
    line_width,
    looks,
    mark_training,
    new_figure,
    palette,
    power_ticks,
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
    figure = new_figure(line_width(rows["scheme"].nunique()), 2.5)
    axes = figure.subplots()
    means = defined.groupby(["scheme", "x"], sort=False, as_index=False)["value"].mean()
    several = defined["seed"].nunique() > 1
    if several:
        sns.lineplot(
            defined,
            x="x",
            y="value",
            hue="scheme",
            palette=palette(styles),
            units="seed",
            estimator=None,
            legend=False,
            linewidth=0.5,
            alpha=0.35,
            ax=axes,
        )
    handles = draw_lines(axes, means, styles, markers=True)
    missing = rows[rows["value"].isna()].groupby("scheme", sort=False)["note"].first()
    mark_ends(axes, means, list(missing.index), styles)
    handles += _say_why(handles, missing.to_dict())
    if several:
        handles.append(
            Line2D([], [], color=MIDDLE, linewidth=0.5, label="thin: one seed")
        )
    _name_axes(axes, rows, chosen)
    add_legend(figure, handles)
    return figure


def _say_why(handles: list[Line2D], notes: dict[str, str]) -> list[Line2D]:
    """Add to legend entries why a line ends; return one for all if all agree."""
    shown = {text: note or "not defined" for text, note in notes.items()}
    drawn = {str(handle.get_label()): handle for handle in handles}
    if len(set(shown.values())) == 1 and shown.keys() <= drawn.keys():
        return [ended(next(iter(shown.values())))]
    more = []
    for text, note in shown.items():
        if text in drawn:
            drawn[text].set_label(f"{text} ({note})")
        else:
            more.append(Line2D([], [], linestyle="", label=f"{text} ({note})"))
    return more


def _name_axes(axes: Any, rows: Frame, chosen: list[dict[str, Any]]) -> None:
    power_ticks(axes, rows["x"].min(), rows["x"].max())
    mark_training(axes, map(training_length, chosen))
    axes.set_xlabel("test length (bytes)")
    axes.set_ylabel("bits per byte")
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
