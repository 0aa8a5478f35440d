"""Sensitivity: what a scheme loses under another rate, its own or the network's."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import Frame, in_bits
from posenc_compare.analysis.show.plots.panels import outer_labels
from posenc_compare.analysis.show.plots.paper import across, row_height
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.said import say_setting
from posenc_compare.analysis.show.plots.style import (
    COLOURS,
    MARKERS,
    PAGE,
    add_legend,
    new_figure,
    safe,
)

MOST = 4  # panels side by side
WIDTH, HEIGHT = 1.6, 1.35  # inches of each, at least
RATES = ("learning_rate", "scheme_rate")
COLUMNS = ["scheme", "rate", "multiple", "seed", "bits"]


@register_plot(
    "sensitivity",
    order=25,
    caption="Bits per byte at the training length, above the best of each scheme, "
    "against the peak rate: means over seeds, and a dot for each seed. Colours: the "
    "rate of the scheme's own parameters in peak rates; 0 leaves it to the rule.",
)
def draw_sensitivity(records: list[Record]) -> Figure | None:
    """Draw a panel for each scheme that was trained at several peak rates."""
    rows = _rows(in_bits(records))
    groups = {
        scheme: some for scheme, some in rows.groupby("scheme") if _rates(some) > 1
    }
    if not groups:
        return None
    multiples = sorted(rows["multiple"].unique())
    columns = across(WIDTH, min(MOST, len(groups)))
    down = -(-len(groups) // columns)
    figure = new_figure(PAGE, row_height(HEIGHT, down) * down + 0.2)
    grid = figure.subplots(down, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(groups) :]:
        axes.remove()
    for axes, (scheme, some) in zip(grid.flat, groups.items(), strict=False):
        _draw(axes, some, multiples)
        axes.set_title(scheme, loc="right")
    ticks = sorted(rows["rate"].unique())
    for axes in grid.flat[: len(groups)]:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(axis="y", color="0.92")
    outer_labels(figure.axes, "peak rate", "bits above the best")
    add_legend(
        figure,
        [
            Line2D(
                [],
                [],
                color=COLOURS[i % len(COLOURS)],
                marker=MARKERS[i % len(MARKERS)],
                markersize=3,
                label=f"{multiple:g}" if multiple else "0: by the rule",
            )
            for i, multiple in enumerate(multiples)
        ],
        title="rate of the scheme's own parameters, in peak rates",
    )
    say_setting(figure, in_bits(records))
    return figure


def _draw(axes: Axes, rows: Frame, multiples: list[float]) -> None:
    """Draw one scheme: a line for each multiple, a dot for each seed."""
    means = rows.groupby(["multiple", "rate"])["bits"].mean()
    best = means.min()
    for i, multiple in enumerate(multiples):
        here = rows[rows["multiple"] == multiple].sort_values("rate")
        if here.empty:
            continue
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        line = means[multiple] - best
        axes.plot(line.index, line, color=colour, linewidth=1.1, zorder=4 - 0.1 * i)
        axes.scatter(
            here["rate"], here["bits"] - best, 7, color=colour, marker=marker, zorder=5
        )


def _rates(rows: Frame) -> int:
    return rows["rate"].nunique()


def _rows(records: list[Record]) -> Frame:
    """Return the bits of every record at its shortest test length."""
    found = []
    for record in records:
        points = [
            (row.x, row.value)
            for row in record.rows
            if row.quantity == "bits_per_byte" and None not in (row.x, row.value)
        ]
        if not points:
            continue
        setting = record.spec.setting
        label = safe(_without_rates(record.label))
        rates = (setting.get(RATES[0]), setting.get(RATES[1], 0.0))
        found.append((label, *rates, record.spec.seed, min(points)[1]))
    return pd.DataFrame(found, columns=COLUMNS)


def _without_rates(label: str) -> str:
    """Return a label that tells all other settings apart."""
    name, _, told = label.partition(" [")
    others = [
        part
        for part in told.removesuffix("]").split(", ")
        if part and part.partition("=")[0] not in RATES
    ]
    return f"{name} [{', '.join(others)}]" if others else name
