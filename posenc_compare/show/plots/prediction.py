"""Prediction: which training-free measure correlates with a trained score."""

import textwrap

import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from posenc_compare.records.record import Record
from posenc_compare.show.frame import Frame
from posenc_compare.show.plots.frames import usable
from posenc_compare.show.plots.heat import add_bar
from posenc_compare.show.plots.panels import note_setting
from posenc_compare.show.plots.paper import COLUMN, PAGE, paper_width
from posenc_compare.show.plots.plot import register_plot
from posenc_compare.show.plots.style import FAINT, new_figure, safe
from posenc_compare.show.predictions import WHENS, predictions
from posenc_compare.show.setting import short_setting

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
    found = predictions(records)
    found = found[np.isfinite(found["rho"].astype(float))]
    if found.empty:
        return None
    table = found.assign(
        measure=found["quantity"].mask(found["of_start"], OWN).map(_name),
        score=found["curve"].map(_name),
        text=found["rho"].map("{:.2f}".format).str.replace("-", "\N{MINUS SIGN}")
        + found.apply(_stars, axis=1),
    )
    names, scores = table["measure"].unique(), table["score"].unique()
    whens = [when for when in WHENS if when in set(table["when"])]
    wide = paper_width(PAGE) > COLUMN
    below = LETTER * max(map(len, scores)) + 0.7
    row = ROW if wide else 1.5 * ROW  # of two lines
    figure = new_figure(PAGE, row * len(names) + below)
    panels = figure.subplots(1, len(whens), sharey=True, squeeze=False)[0]
    room = (figure.get_figwidth() - (2.7 if wide else 1.95)) / len(whens)
    shown = [textwrap.fill(name, 60 if wide else 24) for name in names]
    if room / len(scores) < 0.35:  # inches: stars alone have room
        table = table.assign(text=table["text"].str.extract(r"([*]*)$")[0])
    for axes, when in zip(panels, whens, strict=True):
        some = table[table["when"] == when]
        rho, text = (
            some.pivot(index="measure", columns="score", values=name).reindex(
                index=names, columns=scores
            )
            for name in ("rho", "text")
        )
        axes.set_facecolor(FAINT)
        sns.heatmap(
            rho,
            annot=text.astype(object).where(text.notna(), ""),
            fmt="",
            annot_kws={"fontsize": 6},
            ax=axes,
            cmap="vlag",
            vmin=-1,
            vmax=1,
            cbar=False,
            linewidths=0.5,
            xticklabels=True,
            yticklabels=shown,
        )
        axes.set_title(textwrap.fill(when, max(10, int(15 * room))), fontsize=6.5)
        axes.set(xlabel="", ylabel="")
        axes.grid(visible=False)
        axes.tick_params(length=0)
        upright = len(scores) > 1 or not wide
        axes.tick_params(axis="x", labelrotation=90 if upright else 0, labelsize=6.5)
        axes.tick_params(axis="y", labelsize=7 if wide else 5.5)
    place = {"ax": list(panels), "aspect": 30, "pad": 0.01, "ticks": [-1, 0, 1]}
    add_bar(figure, panels[0], "rank correlation", **place)
    low, high = found["n"].min(), found["n"].max()
    n = f"{low} to {high}" if high > low else f"{low}"
    trained = [one for one in usable(records, "extrapolation") if one.task]
    means = f"{short_setting(trained)} averaged" if trained else "means over seeds"
    note_setting(figure, f"{means}; {n} schemes")
    return figure


def _name(text: str) -> str:
    return safe(text, 60)


def _stars(found: Frame) -> str:
    """Return a star for each interval of a correlation that leaves out 0."""
    ends = ((found[f"{of}_low"], found[f"{of}_high"]) for of in ("schemes", "families"))
    return "".join("*" for low, high in ends if low > 0 or high < 0)
