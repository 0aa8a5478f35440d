"""Lines over lengths, distances or layers: small multiples of means over seeds."""

import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from posenc_compare.show.frame import Frame
from posenc_compare.show.plots.frames import interval
from posenc_compare.show.plots.panels import (
    legend_below,
    name_axes,
    new_panels,
    note_setting,
)
from posenc_compare.show.plots.style import MIDDLE, Look
from posenc_compare.stats.intervals import LEVEL

MANY = 12  # schemes that one panel holds
COMMON = 4  # schemes of no family that are in all panels, if they are no more
BESIDE = 28  # characters of a line of a legend beside a panel
BAND: dict[str, Any] = {"alpha": 0.15, "linewidth": 0}
BAR: dict[str, Any] = {"marker": "|", "markersize": 9, "markeredgewidth": 1.5}
TRAINING: dict[str, Any] = {"color": MIDDLE, "linewidth": 0.7, "linestyle": (0, (2, 2))}


class Lines:
    """Panels with a line for the mean over seeds of each scheme.

    Args:
        rows: `panel`, `scheme`, `x` and `value` of each seed. Panels and schemes are
            told by their texts, panels in order.
        styles: look of every scheme.
        markers: whether to mark the points.
        bands: whether to draw the 95 % intervals.
        beside: whether each panel has a legend of its own.
        layout: of the panels, as `new_panels` takes it.

    Attributes:
        figure: that is drawn.
        panels: axes by title.
        entries: of the legend below all panels.
    """

    def __init__(
        self,
        rows: Frame,
        styles: Mapping[str, Look],
        *,
        markers: bool = True,
        bands: bool = True,
        beside: bool = False,
        **layout: Any,
    ) -> None:
        self.rows = rows.dropna(subset="value")
        self.bands = bands
        titles = [*dict.fromkeys(self.rows["panel"])]
        self.figure, axes = new_panels(titles, **layout)
        self.panels: dict[str, Axes] = dict(zip(titles, axes, strict=True))
        self.first = axes[0]
        looks = {look.text: look for look in styles.values()}
        shown = self._entries(looks, self.rows["scheme"], markers)
        self.entries: dict[str, Artist] = {} if beside else shown
        for title, panel in self.panels.items():
            own = self.rows[self.rows["panel"] == title]
            sns.lineplot(
                own,
                x="x",
                y="value",
                hue="scheme",
                style="scheme",
                palette={text: look.colour for text, look in looks.items()},
                dashes={text: look.dash for text, look in looks.items()},
                markers={t: look.marker for t, look in looks.items()}
                if markers
                else False,
                errorbar=interval if bands else None,
                err_kws=BAND,
                legend=False,
                ax=panel,
            )
            panel.set(xlabel="", ylabel="")
            if beside:
                _legend_beside(panel, self._entries(looks, own["scheme"], markers))

    @staticmethod
    def _entries(
        looks: Mapping[str, Look], schemes: Iterable[str], markers: bool
    ) -> dict[str, Artist]:
        """Return legend entries of schemes, in the order of looks."""
        there = set(schemes)
        known = {text: look for text, look in looks.items() if text in there}
        return {text: look.line(markers=markers) for text, look in known.items()}

    def length_axis(self) -> None:
        """Give the x axes a base-2 logarithm, with ticks written as whole numbers."""
        self.first.set_xscale("log", base=2)
        self.first.xaxis.set_major_locator(LogLocator(base=2, numticks=10))
        self.first.xaxis.set_minor_locator(NullLocator())
        self.first.xaxis.set_major_formatter("{x:g}")

    def rate_axis(self) -> None:
        """Give the x axes a logarithm, with a tick at each point."""
        self.first.set_xscale("log")
        self.first.xaxis.set_major_locator(FixedLocator(sorted(set(self.rows["x"]))))
        self.first.xaxis.set_minor_locator(NullLocator())
        self.first.xaxis.set_major_formatter("{x:g}")

    def value_axis(self) -> str:
        """Make the y axes logarithmic if they are wide; return words that say so."""
        low, high = self.first.get_ylim()
        if not high > 2 * low > 0:
            return ""
        self.first.set_yscale("log")
        self.first.set_ylim(low, high)
        subs = (1, 2, 5) if high > 10 * low else (1, 1.5, 2, 3, 4, 6, 8)
        self.first.yaxis.set_major_locator(LogLocator(subs=subs))
        self.first.yaxis.set_major_formatter("{x:g}")
        self.first.yaxis.set_minor_locator(NullLocator())
        return " (logarithmic)"

    def mark_training(self, lengths: Iterable[float]) -> None:
        """Draw a line at each training length."""
        found = sorted(set(lengths))
        for axes in self.panels.values():
            for length in found:
                axes.axvline(length, zorder=0, **TRAINING)
        name = "training length" if len(found) == 1 else "training lengths"
        self.entries[name] = Line2D([], [], **TRAINING)

    def mark_ends(self, looks: Iterable[Look]) -> None:
        """Put a bar at the last point of schemes that define no further positions."""
        colours = {look.text: look.colour for look in looks}
        rows = self.rows[self.rows["scheme"].isin(colours)]
        means = rows.groupby(["panel", "scheme", "x"], as_index=False)["value"].mean()
        for end in means.groupby(["panel", "scheme"]).tail(1).itertuples():
            colour = colours[end.scheme]
            self.panels[end.panel].plot(end.x, end.value, color=colour, zorder=5, **BAR)
            entry = Line2D([], [], color=MIDDLE, linestyle="", **BAR)
            self.entries["no further positions"] = entry

    def finish(self, x: str, y: str, setting: str, title: str | None = None) -> None:
        """Write the legend, the names of axes that panels share, and the setting.

        Args:
            x: what the x axis shows, with its unit.
            y: what the y axis shows.
            setting: as `note_setting` takes it.
            title: of the legend.
        """
        if self.bands and self.rows.groupby(["panel", "scheme", "x"]).size().max() > 1:
            self.entries[f"{LEVEL:.0%} interval"] = Patch(color=MIDDLE, **BAND)
        legend_below(self.figure, self.entries, title)
        name_axes([*self.panels.values()], x, y)
        note_setting(self.figure, setting)


def by_family(rows: Frame, styles: Mapping[str, Look]) -> tuple[Frame, bool]:
    """Return rows with a `panel` for each family, if schemes are many.

    What belongs to no family is in all panels, to compare with.

    Args:
        rows: `scheme` by the text of its look.
        styles: look of every scheme, in the order of legends.

    Returns:
        The rows, and whether there are panels for families.
    """
    texts: dict[str, list[str]] = {}
    for look in styles.values():
        texts.setdefault(look.family, []).append(look.text)
    if len(styles) <= MANY:
        return rows.assign(panel=""), False
    common = texts.get("none", []) if len(texts.get("none", [])) <= COMMON else []
    found = []
    for family, own in texts.items():
        count = math.ceil(len(own) / MANY)
        size = math.ceil(len(own) / count)  # about as many in each
        for i in range(count if own is not common else 0):
            title = f"{family} ({i + 1} of {count})" if count > 1 else family
            some = common + own[i * size : (i + 1) * size]
            found.append(rows[rows["scheme"].isin(some)].assign(panel=title))
    return pd.concat(found), True


def _legend_beside(axes: Axes, entries: Mapping[str, Artist]) -> None:
    """Name the lines of a panel at its right."""
    names = [textwrap.fill(name, BESIDE) for name in entries]
    axes.legend(
        [*entries.values()],
        names,
        loc="center left",
        bbox_to_anchor=(1, 0.5),
        fontsize=5.8,
        handlelength=2.2,
    )
