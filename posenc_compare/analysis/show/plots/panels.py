"""Panels of lines: one for all schemes, or one for each family where they are many."""

import textwrap
from collections.abc import Iterable, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

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
        for i in range(count):
            title = f"{family} ({i + 1} of {count})" if count > 1 else family
            found[title] = guests + own[i * FULL : (i + 1) * FULL]
    return found


def new_panels(
    groups: dict[str, list[str]], *, one_height: bool = True
) -> tuple[Figure, list[Axes]]:
    """Return a figure with titled axes for each group, which share their scales.

    Args:
        groups: what each holds, by title.
        one_height: whether they share the scale of heights too.
    """
    if len(groups) == 1:
        (texts,) = groups.values()
        figure = new_figure(line_width(len(texts)), HEIGHT)
        return figure, [figure.subplots()]
    rows = (len(groups) + 1) // 2
    figure = new_figure(PAGE, 2.1 * rows)
    grid = figure.subplots(rows, 2, sharex=True, sharey=one_height, squeeze=False)
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
) -> None:
    """Name the lines: below a panel alone, else beside each; `common` always below.

    Panels grow to the height of the longest legend beside one.
    """
    if len(panels) == 1:
        add_legend(figure, [*handles[0], *common])
        return
    texts = [
        [textwrap.fill(str(handle.get_label()), BESIDE) for handle in own]
        for own in handles
    ]
    lines = max("\n".join(own).count("\n") + 1 for own in texts)
    places = [axes.get_subplotspec() for axes in panels]
    rows = len({place.rowspan.start for place in places if place})
    height = figure.get_figheight() / rows
    figure.set_figheight(rows * max(height, LINE * lines + 0.5))
    for axes, own, names in zip(panels, handles, texts, strict=True):
        axes.legend(
            own,
            names,
            loc="center left",
            bbox_to_anchor=(1, 0.5),
            fontsize=5.5,
            handlelength=2,
            labelspacing=0.3,
        )
    add_legend(figure, common)


def outer_labels(panels: list[Axes], x: str, y: str) -> None:
    """Name the axes at the left and the bottom of the panels alone."""
    for i, axes in enumerate(panels):
        below = len(panels) == 1 or i + 2 >= len(panels)
        axes.set_xlabel(x if below else "")
        axes.tick_params(axis="x", labelbottom=below)
        axes.set_ylabel(y if len(panels) == 1 or i % 2 == 0 else "")
