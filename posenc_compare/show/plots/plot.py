"""What a plot is: a function of records that returns a figure, with its caption."""

import functools
from collections.abc import Callable

from matplotlib.figure import Figure

from posenc_compare.records.record import Record
from posenc_compare.registry import PLOTS, Entry
from posenc_compare.show.frame import Numbers, numbers_of
from posenc_compare.show.plots.style import in_style

Draw = Callable[[Numbers], Figure | None]
DrawRecords = Callable[[list[Record]], Figure | None]

LAST = 1000  # the place of a plot that states none


def register_plot(
    name: str, *, caption: str, order: int = LAST, measure: str = ""
) -> Callable[[Draw], DrawRecords]:
    """File a drawing function under a name; return it as one that draws in our style.

    Args:
        name: of the files, without their ending.
        caption: what the report says below the plot.
        order: place among the plots of a report, the smallest first.
        measure: beside whose tables a report shows it; with none, after all tables.
    """

    def file(draw: Draw) -> DrawRecords:

        @functools.wraps(draw)
        @in_style()
        def styled(records: list[Record]) -> Figure | None:
            return draw(numbers_of(records))

        facts = {"caption": caption, "order": order, "measure": measure}
        PLOTS.add(name, styled, draw, facts)
        return styled

    return file


def in_order() -> list[Entry]:
    """Return what is known of every plot, in the order of a report."""
    return sorted(
        PLOTS.entries().values(), key=lambda entry: entry.facts.get("order", LAST)
    )
