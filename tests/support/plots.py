"""Plots of records, drawn."""

from matplotlib.figure import Figure

from posenc_compare.records.record import Record
from posenc_compare.registry import PLOTS


def drawn(name: str, records: list[Record]) -> Figure:
    """Return a plot of records, after all of it was laid out."""
    figure = PLOTS.get(name)(records)
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    return figure


def titles(figure: Figure) -> list[str]:
    """Return the titles of its panels."""
    return [axes.get_title(loc="left") for axes in figure.axes]
