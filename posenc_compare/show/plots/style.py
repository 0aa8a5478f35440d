"""How every plot looks: one colour, dash and marker for each scheme, and the fonts."""

import functools
import io
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib as mpl
import seaborn as sns
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from posenc_compare.records.record import Record
from posenc_compare.registry import SCHEMES, Entry
from posenc_compare.show.plots.paper import PAPER, paper_width
from posenc_compare.show.ranking import YEAR, by_family

SCREEN = 160  # dots per inch where a notebook shows a figure
LABEL = 40  # characters of a label that are shown
FONT = "DejaVu Sans"  # comes with matplotlib

# Hues that read well as thin lines: without pale ones, and with dark ones beside them.
COLOURS = [
    *(sns.color_palette("colorblind").as_hex()[i] for i in (0, 1, 2, 3, 4, 9, 5)),
    *(sns.color_palette("dark").as_hex()[i] for i in (7, 4, 3, 0, 2, 6, 9)),
]
DASHES: tuple[Any, ...] = ("", (3.5, 1.5), (1, 1), (5, 1.2, 1, 1.2))  # of seaborn
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FAINT, MIDDLE = "0.85", "0.45"  # greys
RC: dict[Any, Any] = {
    **sns.plotting_context("paper", font_scale=0.8),
    **sns.axes_style("ticks"),
    "font.family": [FONT],
    "text.parse_math": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.linewidth": 0.6,
    "grid.color": "0.92",
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.labelspacing": 0.3,
    "figure.constrained_layout.w_pad": 0.07,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "svg.hashsalt": "posenc-compare",
}

Draw = Callable[[list[Record]], Figure | None]
Given = ParamSpec("Given")
Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class Look:
    """How a scheme appears in every plot.

    Attributes:
        text: its label, safe to draw.
        colour: of lines and dots.
        dash: of lines, as seaborn takes it.
        marker: of dots.
        family: of the scheme.
    """

    text: str
    colour: str
    dash: Any
    marker: str
    family: str

    def line(self, *, markers: bool = True) -> Line2D:
        """Return a line that looks so, for a legend."""
        return Line2D(
            [],
            [],
            color=self.colour,
            linestyle=(0, self.dash) if self.dash else "-",
            marker=self.marker if markers else "",
            markeredgecolor="w",
        )


def looks(records: Iterable[Record]) -> dict[str, Look]:
    """Return the look of every label of records, in the order of legends.

    The order is by family, then by name. Colour and dash depend on the label alone, so
    that a scheme has the same ones in all plots of all runs.
    """
    family = {record.label: record.family for record in records}
    labels = sorted(family, key=lambda label: by_family(family[label], label))
    found: dict[str, Look] = {}
    texts: set[str] = set()
    faces: set[tuple[str, Any, str]] = set()
    for label in labels:
        text, copy = safe(label), 1
        while text in texts:  # of labels that begin alike
            copy += 1
            text = safe(label, LABEL - 5) + f" ({copy})"
        colour, dash, first = _faces().get(label) or _face_of(label)
        turned = MARKERS[first:] + MARKERS[:first]
        free = (one for one in turned if (colour, dash, one) not in faces)
        marker = next(free, turned[0])
        texts.add(text)
        faces.add((colour, dash, marker))
        found[label] = Look(text, colour, dash, marker, safe(family[label]))
    return found


def looks_in_turn(texts: Iterable[str]) -> dict[str, Look]:
    """Return looks by order, for labels that are not schemes, such as scalings."""
    return {
        text: Look(text, COLOURS[i % len(COLOURS)], "", MARKERS[i % len(MARKERS)], "")
        for i, text in enumerate(texts)
    }


@functools.cache
def _faces() -> dict[str, tuple[str, Any, int]]:
    """Return colour, dash and marker of each scheme of this package.

    In the order of publication, each takes the colour that its family uses least.
    """
    families: Counter[tuple[str, str]] = Counter()
    total: Counter[str] = Counter()
    found = {}
    for name, family in _published().items():
        colour = min(COLOURS, key=lambda c: (families[family, c], total[c]))
        count = total[colour]
        found[name] = (colour, DASHES[count % len(DASHES)], count % len(MARKERS))
        families[family, colour] += 1
        total[colour] += 1
    return found


def _face_of(label: str) -> tuple[str, Any, int]:
    """Return colour, dash and marker of any other label, by a checksum of its text."""
    number = zlib.crc32(label.encode("utf-8", "replace"))
    number, colour = divmod(number, len(COLOURS))
    number, dash = divmod(number, len(DASHES))
    return COLOURS[colour], DASHES[dash], number % len(MARKERS)


@functools.cache
def _published() -> dict[str, str]:
    """Return the family of every scheme of this package, in order of publication."""
    own = SCHEMES.built_in()
    own.sort(key=lambda entry: (entry.facts["family"] != "none", _year(entry)))
    return {entry.name: entry.facts["family"] for entry in own}


def _year(entry: Entry) -> tuple[int, str]:
    year = YEAR.search(entry.facts.get("source", ""))
    return int(year[0]) if year else 0, entry.name


def by_publication(labels: Iterable[str]) -> list[str]:
    """Return labels in the order of publication; those of no package scheme last."""
    places = {name: place for place, name in enumerate(_published())}
    return sorted(labels, key=lambda label: places.get(label, len(places)))


def safe(text: str, length: int = LABEL) -> str:
    """Return text that draws as it is written: short and in one line.

    Control characters, and those the font lacks, become `?`.
    """
    glyphs = _glyphs(dict(PAPER.get().rc).get("font.family", [FONT])[0])
    shown = "".join(
        char
        if ord(char) in glyphs and unicodedata.category(char)[0] not in "CM"
        else "?"
        for char in text[: length + 1]
    )
    if len(text) > length:
        shown = shown[: length - 1] + "…"
    if shown.startswith("_"):  # matplotlib hides what begins so
        shown = " " + shown
    return shown


@functools.cache
def _glyphs(family: str) -> frozenset[int]:
    font = font_manager.get_font(font_manager.findfont(family))
    return frozenset(font.get_charmap())


def in_style(draw: Callable[Given, Drawn]) -> Callable[Given, Drawn]:
    """Run a drawing function in this style, whatever the user's own settings are."""

    @functools.wraps(draw)
    def styled(*given: Given.args, **named: Given.kwargs) -> Drawn:
        with mpl.rc_context():
            _apply()
            return draw(*given, **named)

    return styled


def _apply() -> None:
    mpl.rcdefaults()
    for name, value in {**RC, **dict(PAPER.get().rc)}.items():
        mpl.rcParams[name] = value


def render(figure: Figure, ending: str, dpi: int) -> bytes:
    """Return a figure as a file's bytes, the same for the same figure.

    Args:
        figure: to render.
        ending: png, svg or pdf.
        dpi: resolution of PNG.
    """
    data = io.BytesIO()
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with mpl.rc_context():
        _apply()
        figure.savefig(data, format=ending, dpi=dpi, metadata=date.get(ending))
    return data.getvalue()


class Picture(Figure):
    """A figure that a notebook shows, though pyplot does not know of it."""

    def _repr_png_(self) -> bytes:
        return render(self, "png", SCREEN)


def new_figure(
    width: float,
    height: float,
    layout: Literal["constrained", "compressed"] = "constrained",
) -> Figure:
    """Return an empty figure in inches, outside pyplot and any window.

    Its width is that of the paper, where a user asks for one.
    """
    return Picture(figsize=(paper_width(width), height), layout=layout)
