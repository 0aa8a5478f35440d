"""Panels of lines: one for all schemes, or one for each family where they are many."""

import textwrap
from collections.abc import Iterable, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from posenc_compare.analysis.show.plots.paper import across
from posenc_compare.analysis.show.plots.style import (
    PAGE,
    Look,
    add_legend,
    line_width,
    new_figure,
)

MANY = 12  # schemes that one panel does not hold
FULL = 12  # schemes of a family that one panel holds: more have several
GUESTS = 4  # schemes of no family that are in all panels, if they are no more
BESIDE = 30  # characters of a line of a legend beside a panel
LINE = 0.105  # inches of a line of a legend beside a panel
HEIGHT = 2.5  # inches, of a panel alone
ACROSS = 3.4  # inches that a panel with a legend beside it needs
ROW, LOW = 2.1, 1.3  # inches, of a row of panels at least: on a page, in a column
EDGE = 0.45  # inches above and below the longest legend of a row


def groups_of(styles: dict[str, Look], shown: Iterable[str]) -> dict[str, list[str]]:
    """Return the texts of schemes by the title of their panel, in order of legends.

    Where they are many, or colours are not enough to tell them apart, there is a
    panel for each family, and what belongs to none is in all of them, to compare with.
    """
    wanted = set(shown)
    looks = [look for look in styles.values() if look.text in wanted]
    texts = [look.text for look in looks]
    families = list(dict.fromkeys(look.family for look in looks))
    apart = len({look.colour for look in looks}) == len(looks)
    if len(looks) <= (FULL if len(families) < 2 else MANY * apart):
        return {"": texts}
    plain = [look.text for look in looks if look.family == "none"]
    guests = plain if len(plain) <= GUESTS else []
    found = {}
    for family in families:
        own = [look.text for look in looks if look.family == family]
        if family == "none" and guests:
            continue
        count = -(-len(own) // FULL)
        size = -(-len(own) // count)  # about as many in each
        for i in range(count):
            title = f"{family} ({i + 1} of {count})" if count > 1 else family
            found[title] = guests + own[i * size : (i + 1) * size]
    return found


def new_panels(groups: dict[str, list[str]]) -> tuple[Figure, list[Axes]]:
    """Return a figure with titled axes for each group, which share their scales.

    Args:
        groups: what each holds, by title.
    """
    if len(groups) == 1:
        (texts,) = groups.values()
        figure = new_figure(line_width(len(texts)), HEIGHT)
        return figure, [figure.subplots()]
    columns = across(ACROSS, 2)
    rows = -(-len(groups) // columns)
    figure = new_figure(PAGE, ROW * rows)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(groups) :]:
        axes.remove()
    for axes, title in zip(grid.flat, groups, strict=False):
        axes.set_title(title, loc="right")
    return figure, list(grid.flat[: len(groups)])


def add_legends(
    figure: Figure,
    panels: list[Axes],
    handles: list[list[Line2D]],
    common: Sequence[Artist],
    *,
    room: float = 0,
) -> None:
    """Name the lines: below a panel alone, else beside each; `common` always below.

    Each row of panels is as high as the longest legend beside one.

    Args:
        figure: of the panels.
        panels: with all their lines.
        handles: of the lines of each panel.
        common: legend entries of what all panels have.
        room: inches between a panel and the legend beside it.
    """
    if len(panels) == 1:
        add_legend(figure, [*handles[0], *common])
        return
    texts = [
        [textwrap.fill(str(handle.get_label()), BESIDE) for handle in own]
        for own in handles
    ]
    _fit_rows(figure, panels, ["\n".join(own).count("\n") + 1 for own in texts])
    for axes, own, names in zip(panels, handles, texts, strict=True):
        place = axes.transAxes + ScaledTranslation(room, 0, figure.dpi_scale_trans)
        axes.legend(
            own,
            names,
            loc="center left",
            bbox_to_anchor=(1, 0.5),
            bbox_transform=place,
            fontsize=5.5,
            handlelength=2,
            labelspacing=0.3,
        )
    add_legend(figure, common)


def _fit_rows(figure: Figure, panels: list[Axes], lines: list[int]) -> None:
    """Make each row as high as its longest legend, and the figure as high as all."""
    specs = [spec for axes in panels if (spec := axes.get_subplotspec())]
    least = ROW if figure.get_figwidth() >= PAGE else LOW
    rows = [least] * specs[0].get_gridspec().nrows
    for spec, count in zip(specs, lines, strict=True):
        at = spec.rowspan.start
        rows[at] = max(rows[at], LINE * count + EDGE)
    specs[0].get_gridspec().set_height_ratios(rows)
    figure.set_figheight(sum(rows))


def outer_labels(panels: list[Axes], x: str, y: str) -> None:
    """Name the axes at the left and the bottom of the panels alone."""
    lowest = {_place(axes)[1]: axes for axes in panels}  # by column
    for axes in panels:
        below = axes is lowest[_place(axes)[1]]
        axes.set_xlabel(x if below else "", visible=True)  # seaborn hides some
        axes.tick_params(axis="x", labelbottom=below)
        axes.set_ylabel(y if _place(axes)[1] == 0 else "")


def _place(axes: Axes) -> tuple[int, int]:
    """Return the row and the column of a panel."""
    spec = axes.get_subplotspec()
    return (spec.rowspan.start, spec.colspan.start) if spec else (0, 0)
