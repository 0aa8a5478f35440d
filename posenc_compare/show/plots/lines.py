"""Lines over lengths, distances or layers: small multiples of means over seeds."""

import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator

from posenc_compare.records.record import Record
from posenc_compare.show.plots.frames import Frame, training_length
from posenc_compare.show.plots.panels import (
    legend_below,
    name_values,
    new_panels,
    note_setting,
    set_ticks,
)
from posenc_compare.show.plots.paper import PAGE, columns_of, paper_width
from posenc_compare.show.plots.style import FAINT, MIDDLE, Look
from posenc_compare.show.setting import short_setting
from posenc_compare.stats.intervals import LEVEL

MANY = 8  # schemes that one panel holds
MOST = 10  # schemes of a family that one panel holds
COMMON = 4  # schemes of no family that are in all panels, if they are no more
DIGITS = 7  # of ticks, on an inch of paper
BESIDE = 28  # characters of a line of a legend beside a panel
BAND: dict[str, Any] = {"alpha": 0.12, "linewidth": 0}
BAR: dict[str, Any] = {"marker": "|", "markersize": 9, "markeredgewidth": 1.5}
TRAINING: dict[str, Any] = {"color": MIDDLE, "linewidth": 0.7, "linestyle": (0, (2, 2))}


class Lines:
    """Panels with a line for the mean over seeds of each scheme.

    Of many schemes, each panel is drawn once for each family: its lines in colour, and
    those of the others in grey behind. `facets` holds axes, the `panel` of its rows,
    and the schemes in colour; `entries` is the legend below all panels.

    `means` have `panel`, `scheme`, `x`, `mean`, `half_width` and `n`, with panels and
    `x` in order. `width` and `height` of a panel are in inches. With `share`, all
    panels have one scale.
    """

    def __init__(
        self,
        means: Frame,
        styles: Mapping[str, Look],
        *,
        columns: int = 2,
        width: float = 3.4,
        height: float = 2.0,
        share: bool = True,
    ) -> None:
        self.means = means.dropna(subset="mean")
        there = set(self.means["scheme"])
        self.looks = {k.text: k for k in styles.values() if k.text in there}
        names = [*dict.fromkeys(self.means["panel"])]
        families = by_panel(self.looks.values())
        if len(names) > 1 and columns_of(width, len(families)) < len(families):
            families = {"": [*self.looks]}  # there is no room for both
        facets = [(name, family) for name in names for family in families]
        across = len(families) if len(names) > 1 < len(families) else columns
        titles = [", ".join(filter(None, facet)) for facet in facets]
        self.figure, self.axes = new_panels(
            titles, columns_of(width, across), height, share=share
        )
        self.facets = [
            (axes, name, families[family])
            for axes, (name, family) in zip(self.axes, facets, strict=True)
        ]
        for axes, name, schemes in self.facets:
            self._draw(axes, name, schemes)
            if len(names) == 1:
                self._legend_beside(axes, schemes)
        own = self.looks if len(names) > 1 else {}
        self.entries: dict[str, Artist] = {
            text: Line2D([], [], **look.line) for text, look in own.items()
        }

    def _draw(self, axes: Axes, name: str, schemes: list[str]) -> None:
        """Draw a panel with the lines of these schemes in colour."""
        panel = self.means[self.means["panel"] == name]
        lines = {text: line.set_index("x") for text, line in panel.groupby("scheme")}
        for line in (line for text, line in lines.items() if text not in schemes):
            axes.plot(line["mean"], color=FAINT, linewidth=0.6, zorder=1)
        for text in filter(lines.__contains__, schemes):
            mean, width = lines[text]["mean"], lines[text]["half_width"]
            look = self.looks[text]
            axes.plot(mean, **look.line)
            ends = mean - width, mean + width
            axes.fill_between(mean.index, *ends, color=look.colour, **BAND)

    def _legend_beside(self, axes: Axes, schemes: list[str]) -> None:
        """Name the lines of a panel at its right, in the order of their ends."""
        ends = self.means.groupby("scheme")["mean"].last()
        order = sorted(schemes, key=lambda text: -ends[text])
        axes.legend(
            [Line2D([], [], **self.looks[text].line) for text in order],
            [textwrap.fill(text, BESIDE) for text in order],
            loc="center left",
            bbox_to_anchor=(1, 0.5),
            fontsize=6,
            handlelength=2.2,
        )

    def length_axis(self) -> None:
        """Give the x axes a base-2 logarithm, with ticks written as whole numbers."""
        self.axes[0].set_xscale("log", base=2)
        digits = len(f"{self.means['x'].max():g}")
        most = min(6, int(paper_width(PAGE) * DIGITS / digits))
        set_ticks(self.axes[0].xaxis, LogLocator(base=2, numticks=most))

    def value_axis(self) -> str:
        """Make the y axes logarithmic if they are wide; return words that say so."""
        low, high = self.axes[0].get_ylim()
        if not high > 2 * low > 0:
            return ""
        self.axes[0].set_yscale("log")
        self.axes[0].set_ylim(low, high)
        subs = (1, 2, 5) if high > 10 * low else (1, 1.5, 2, 3, 4, 6, 8)
        set_ticks(self.axes[0].yaxis, LogLocator(subs=subs))
        return " (logarithmic)"

    def mark_training(self, records: Iterable[Record]) -> None:
        """Draw a line at each training length."""
        found = sorted({training_length(record) for record in records})
        for axes in self.axes:
            for length in found:
                axes.axvline(length, zorder=0, **TRAINING)
        name = "training length" if len(found) == 1 else "training lengths"
        self.entries[name] = Line2D([], [], **TRAINING)

    def mark_ends(self, texts: Iterable[str]) -> None:
        """Put a bar at the last point of schemes that define no further positions."""
        means = self.means[self.means["scheme"].isin(set(texts))]
        ends = means.drop_duplicates(["panel", "scheme"], keep="last")
        for axes, name, schemes in self.facets:
            own = ends[(ends["panel"] == name) & ends["scheme"].isin(schemes)]
            for end in own.itertuples():
                colour = self.looks[end.scheme].colour
                axes.plot(end.x, end.mean, color=colour, zorder=5, **BAR)
        if len(ends):
            entry = Line2D([], [], color=MIDDLE, linestyle="", **BAR)
            self.entries["no further positions"] = entry

    def finish(
        self, x: str, y: str, records: Iterable[Record], title: str | None = None
    ) -> None:
        """Write the legend, the names of axes that panels share, and the setting."""
        if self.means["half_width"].notna().any():
            band = Patch(color=MIDDLE, **BAND)
            self.entries[f"{LEVEL:.0%} interval over seeds"] = band
        legend_below(self.figure, self.entries, title)
        for axes in self.axes:
            lowest = axes.xaxis.get_tick_params()["labelbottom"]
            axes.set(xlabel=x if lowest else "", ylabel="")
        note_setting(self.figure, short_setting(records))
        name_values(self.figure, y)


def by_panel(looks: Iterable[Look]) -> dict[str, list[str]]:
    """Return the texts of schemes by the titles of their panels: few have one panel.

    What belongs to no family is in all panels, to compare with.
    """
    texts: dict[str, list[str]] = {}
    for look in looks:
        texts.setdefault(look.family, []).append(look.text)
    every = [text for own in texts.values() for text in own]
    if len(every) <= MANY or texts.keys() <= {""}:
        return {"": every}
    common = texts.get("none", [])
    common = texts.pop("none") if 0 < len(common) <= COMMON < len(every) else []
    found = {}
    for family, own in texts.items():
        parts = np.array_split(own, math.ceil(len(own) / MOST))
        for i, part in enumerate(parts):
            title = f"{family} ({i + 1} of {len(parts)})" if len(parts) > 1 else family
            found[title] = [*common, *map(str, part)]
    return found
