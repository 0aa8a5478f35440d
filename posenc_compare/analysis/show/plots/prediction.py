"""Prediction: which training-free measure correlates with a trained score."""

import math
import textwrap

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.frames import usable
from posenc_compare.analysis.show.plots.heat import add_bar
from posenc_compare.analysis.show.plots.panels import note_setting
from posenc_compare.analysis.show.plots.paper import PAGE
from posenc_compare.analysis.show.plots.plot import register_plot
from posenc_compare.analysis.show.plots.style import FAINT, new_figure, safe
from posenc_compare.analysis.show.predictions import WHENS, predictions
from posenc_compare.analysis.show.setting import short_setting

OWN = "own score at training length"  # a control, of every score another
ROW, LETTER = 0.2, 0.065  # inches: of a measure, and of a letter of a score's name


@register_plot(
    "prediction",
    order=35,
    caption="Spearman's correlation over schemes of training-free measures with "
    "trained scores. One star: the 95% interval over schemes excludes 0; two stars: "
    "that over families does, too. Grey: too few schemes, or all equal.",
)
def draw_prediction(records: list[Record]) -> Figure | None:
    """Draw a cell for every measure and score, coloured by the correlation.

    A panel holds one place of all curves: the longest test, that minus the training
    length, and the training length.
    """
    found = [one for one in predictions(records) if math.isfinite(one.found.rho)]
    if not found:
        return None
    table = pd.DataFrame(
        {
            "measure": safe(OWN if one.of_start else one.quantity, 60),
            "score": safe(one.curve, 60),
            "when": one.when,
            "rho": one.found.rho,
            "text": f"{one.found.rho:.2f}".replace("-", "\N{MINUS SIGN}")
            + "*" * _excludes_zero(one.found.over_schemes)
            + "*" * _excludes_zero(one.found.over_families),
        }
        for one in found
    )
    names, scores = table["measure"].unique(), table["score"].unique()
    whens = [when for when in WHENS if when in set(table["when"])]
    long = max(map(len, scores))
    figure = new_figure(
        PAGE, ROW * len(names) + LETTER * long * (len(scores) > 1) + 0.9
    )
    panels = figure.subplots(1, len(whens), sharey=True, squeeze=False)[0]
    room = (figure.get_figwidth() - 2.2) / len(whens)
    if room / len(scores) < 0.35:  # inches: stars alone have room
        table = table.assign(text=table["text"].str.extract(r"([*]*)$")[0])
    for axes, when in zip(panels, whens, strict=True):
        some = table[table["when"] == when].pivot(index="measure", columns="score")
        some = some.reindex(index=names).reindex(columns=scores, level="score")
        axes.set_facecolor(FAINT)
        sns.heatmap(
            some["rho"],
            annot=some["text"].fillna(""),
            fmt="",
            annot_kws={"fontsize": 6},
            ax=axes,
            cmap="vlag",
            vmin=-1,
            vmax=1,
            cbar=False,
            linewidths=0.5,
            xticklabels=True,
            yticklabels=True,
        )
        axes.set_title(textwrap.fill(when, max(10, int(15 * room))))
        axes.set(xlabel="", ylabel="")
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.tick_params(axis="x", labelrotation=90 if len(scores) > 1 else 0)
    place = {"ax": list(panels), "aspect": 30, "pad": 0.01, "ticks": [-1, 0, 1]}
    add_bar(figure, panels[0], "rank correlation", **place)
    counts = sorted({one.found.n for one in found})
    n = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    trained = [one for one in usable(records, "extrapolation") if one.task]
    means = f"{short_setting(trained)} averaged" if trained else "means over seeds"
    note_setting(figure, f"{means}; {n} schemes")
    return figure


def _excludes_zero(ends: tuple[float, float]) -> bool:
    """Return whether an interval leaves out 0."""
    low, high = ends
    return low > 0 or high < 0
