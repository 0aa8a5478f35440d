"""Prediction: the rank correlations of measures without training and trained scores."""

import textwrap
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from posenc_compare.records.record import Record
from posenc_compare.show.plots.frames import usable
from posenc_compare.show.plots.panels import SMALL, add_bar, draw_heat, note_setting
from posenc_compare.show.plots.paper import COLUMN, PAGE, paper_width
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import FAINT, new_figure, safe
from posenc_compare.show.predictions import WHENS, by_setting, predictions
from posenc_compare.show.setting import short_setting
from posenc_compare.stats.pairs import ALPHA

OWN = "own score at training length"  # a control, of every score another
ROW, LETTER = 0.2, 0.065  # inches: of a measure, and of a letter of a score's name
NAME, LINE = 400, 60  # letters of a name, whole to its last setting, and of a line


@register_plot(
    "prediction",
    order=35,
    caption="Spearman's correlation over schemes of training-free measures with "
    "trained scores. A star: p ≤ 0.05 in a permutation test, adjusted by Holm for all "
    "measures of the score. Grey: too few schemes, or all equal.",
)
def draw_prediction(records: list[Record]) -> Figure | None:
    """Draw a cell for every measure and score, coloured by the correlation.

    A panel holds one place of all curves: the longest test, that minus the training
    length, and the training length. A curve is of one training setting.
    """
    found = predictions(records)
    found = found[np.isfinite(found["rho"].astype(float))]
    if found.empty:
        return None
    names = found["quantity"].mask(found["of_start"], OWN)
    stars = np.where(found["p_holm"].astype(float) <= ALPHA, "*", "")
    numbers = found["rho"].map("{:.2f}".format).str.replace("-", "\N{MINUS SIGN}")
    table = found.assign(
        measure=names.map(lambda name: safe(name, NAME)),
        score=found["curve"].map(lambda name: safe(name, NAME)),
        stars=stars,
        text=numbers + stars,
    )
    measures, scores = table["measure"].unique(), table["score"].unique()
    whens = [when for when in WHENS if when in set(table["when"])]
    below = [textwrap.fill(name, LINE) for name in scores]
    wide = paper_width(PAGE) > COLUMN
    figure = new_figure(
        ROW * (1 if wide else 1.5) * len(measures)
        + LETTER * min(max(map(len, scores)), LINE)
        + 0.7
    )
    panels = figure.subplots(1, len(whens), sharey=True, squeeze=False)[0]
    shown = [textwrap.fill(name, LINE if wide else 24) for name in measures]
    room = len(whens) * len(scores) <= (9 if wide else 3)  # for numbers
    for axes, when in zip(panels, whens, strict=True):
        own = table[table["when"] == when]
        rho, text = (
            own.pivot(index="measure", columns="score", values=name).reindex(
                index=measures, columns=scores
            )
            for name in ("rho", "text" if room else "stars")
        )
        draw_heat(
            axes,
            rho,
            ("vlag", -1.0, 1.0),
            square=False,
            annot=text.astype(object).where(text.notna(), ""),
            fmt="",
            annot_kws={"fontsize": 6},
            linewidths=0.5,
            xticklabels=below,
            yticklabels=shown,
        )
        axes.set_facecolor(FAINT)
        axes.set_title(textwrap.fill(when, 24 if wide else 12), fontsize=SMALL)
        axes.set(xlabel="", ylabel="")
        axes.tick_params(length=0)
        upright = 90 if len(scores) > 1 or not wide else 0
        axes.tick_params(axis="x", labelrotation=upright)
        if not wide:
            axes.tick_params(axis="y", labelsize=5.5)
    place = {"ax": list(panels), "aspect": 30, "pad": 0.01, "ticks": [-1, 0, 1]}
    add_bar(figure, panels[0], "rank correlation", **place)
    low, high = found["n"].min(), found["n"].max()
    n = f"{low} to {high}" if high > low else f"{low}"
    trained = [one for one in usable(records, "extrapolation") if one.task]
    trained = [  # seeds are of a scheme and setting, whatever the processor
        replace(one, label=f"{one.label}{setting}")
        for setting, some in by_setting(trained).items()
        for one in some
    ]
    means = f"{short_setting(trained)} averaged" if trained else "means over seeds"
    note_setting(figure, f"{means}; {n} schemes")
    return figure
