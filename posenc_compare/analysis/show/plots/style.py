"""How every plot looks: one colour, marker and dash per scheme, and paper sizes.

The colours begin with those of Okabe and Ito and go on with the candidates furthest
from all before them, in OKLab, as seen with normal, deuteranopic, protanopic and
tritanopic vision. Where colours run out, marker and dash still tell schemes apart.
"""

import functools
import io
import math
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import matplotlib as mpl
import seaborn as sns
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.listing import YEAR, by_family
from posenc_compare.analysis.show.plots.paper import COLUMN, PAGE, PAPER, paper_width
from posenc_compare.registry import SCHEMES, Entry

FEW = 6  # schemes whose lines fit into one column
SCREEN = 160  # dots per inch where a notebook shows a figure
LABEL = 40  # characters of a label that are shown
ENTRY = 44  # characters of a line of a legend
FONT = "DejaVu Sans"  # comes with matplotlib

COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#000000",
    "#e69f00",
    "#56b4e9",
    "#a5004b",
    "#8778ff",
    "#5a0f00",
    "#cc79a7",
    "#000087",
    "#a5b496",
    "#0000f0",
    "#694b78",
    "#3c0f4b",
    "#ff4b69",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*", "d")
SOLID = "-"
DASHED = (0, (3.5, 1.5))
DASHES = (SOLID, DASHED, (0, (1, 1)), (0, (5, 1.2, 1, 1.2)), (0, (7, 1.5)))

FAINT, MIDDLE = "0.85", "0.45"  # greys
TRAINING: dict[str, Any] = {
    "color": MIDDLE,
    "linewidth": 0.7,
    "linestyle": (0, (2, 2)),
}
RC: dict[Any, Any] = {
    **sns.axes_style("ticks"),
    "font.family": [FONT],
    "font.size": 7,
    "text.parse_math": False,
    "axes.labelsize": 7,
    "axes.titlesize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.title_fontsize": 6.5,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "0.15",
    "axes.titlepad": 3,
    "axes.labelpad": 2,
    "axes.unicode_minus": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.linewidth": 0.4,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.pad": 2,
    "ytick.major.pad": 2,
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
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
        marker: of dots.
        dash: of lines.
        family: of the scheme.
    """

    text: str
    colour: str
    marker: str
    dash: Any
    family: str


def looks(records: Iterable[Record]) -> dict[str, Look]:
    """Return the look of every label of records, in the order of legends."""
    return looks_of({record.label: record.family for record in records})


def looks_of(family: dict[str, str]) -> dict[str, Look]:
    """Return the look of every label, in the order of legends: by family, then name.

    A scheme of this package has the same colour and marker in every company, unless
    another one beside it has its colour; dashes tell apart those that are there. A look
    depends on the labels of all records, whatever their measure and status, so that all
    plots of one set of records agree. Where labels are more than the colours, those of
    one family, and of none, still differ in colour as far as there are colours.

    Args:
        family: of every label.
    """
    labels = sorted(family, key=lambda label: by_family(family[label], label))
    known = places()
    strange = (label for label in labels if label not in known)
    known = {**known, **{label: len(known) + i for i, label in enumerate(strange)}}
    used: Counter[str] = Counter()
    near: Counter[tuple[str, str]] = Counter()  # by family and colour
    chosen: dict[str, str] = {}
    for label in sorted(labels, key=lambda label: known[label]):
        beside: Counter[str] = Counter()
        for (other, colour), count in near.items():
            beside[colour] += count * _meet(other, family[label])
        first = known[label] % len(COLOURS)
        turned = COLOURS[first:] + COLOURS[:first]
        colour = min(turned, key=lambda colour: (beside[colour], used[colour]))
        chosen[label] = colour
        used[colour] += 1
        near[family[label], colour] += 1
    texts = _texts(labels)
    found: dict[str, Look] = {}
    faces: Counter[tuple[object, ...]] = Counter()
    for i, label in enumerate(labels):
        face = chosen[label], MARKERS[known[label] % len(MARKERS)]
        first = (i + i // len(COLOURS)) % len(DASHES)
        turned = DASHES[first:] + DASHES[:first]
        dash = min(turned, key=lambda dash: faces[*face, dash])
        faces[*face, dash] += 1
        found[label] = Look(texts[label], *face, dash, safe(family[label]))
    return found


@functools.cache
def places() -> dict[str, int]:
    """Return the place of every scheme of this package, in the order of publication."""
    own = [
        entry
        for entry in SCHEMES.entries().values()
        if entry.module.startswith(f"{SCHEMES.package}.")
    ]
    own.sort(key=lambda entry: (entry.facts.get("family") != "none", _year(entry)))
    return {entry.name: place for place, entry in enumerate(own)}


def _year(entry: Entry) -> tuple[int, str]:
    year = YEAR.search(entry.facts.get("source", ""))
    return int(year[0]) if year else 0, entry.name


def _meet(one: str, other: str) -> bool:
    """Return whether schemes of two families may share a panel."""
    return one == other or "none" in (one, other)


def _texts(labels: Iterable[str]) -> dict[str, str]:
    """Return what is drawn of each label; those that are cut alike have a number."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for label in labels:
        text, copy = safe(label), 1
        while text in taken:
            copy += 1
            text = safe(label, LABEL - 5) + f" ({copy})"
        taken.add(text)
        found[label] = text
    return found


def palette(styles: dict[str, Look]) -> dict[str, str]:
    """Return the colour of every text that `looks` gives a scheme."""
    return {look.text: look.colour for look in styles.values()}


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


def render(figure: Figure, ending: str, dpi: int, stamp: str = "") -> bytes:
    """Return a figure as a file's bytes, the same for the same figure.

    Args:
        figure: to render.
        ending: png, svg or pdf.
        dpi: resolution of PNG.
        stamp: words without markup that the file is to hold, unseen.
    """
    data = io.BytesIO()
    metadata = {
        "png": {"Comment": stamp or None},
        "svg": {"Date": None, "Description": stamp or None},
        "pdf": {"CreationDate": None, "Keywords": stamp or None},
    }[ending]
    with mpl.rc_context():
        _apply()
        figure.savefig(data, format=ending, dpi=dpi, metadata=metadata)
    return data.getvalue()


class Picture(Figure):
    """A figure that a notebook shows, though pyplot does not know of it."""

    def _repr_png_(self) -> bytes:
        return render(self, "png", SCREEN)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure in inches, outside pyplot and any window.

    Its width is that of the paper, where a user asks for one.
    """
    size = (paper_width(width), height)
    return Picture(figsize=size, layout="constrained")


def line_width(schemes: int) -> float:
    """Return the width of a figure of lines, in inches."""
    return COLUMN if schemes <= FEW else PAGE


def add_legend(
    figure: Figure, handles: Sequence[Artist], *, title: str | None = None
) -> None:
    """Put a legend below everything; the figure grows by its height.

    Args:
        figure: with its axes, before the legend.
        handles: in order, each with its label.
        title: above the entries.
    """
    if not handles:
        return
    texts = [textwrap.fill(str(h.get_label()), ENTRY) for h in handles]
    lines = [line for text in texts for line in text.splitlines()]
    entry = 0.055 * max(map(len, lines)) + 0.45  # inches, from the mean glyph
    columns = max(1, min(len(handles), int(figure.get_figwidth() / entry)))
    rows = math.ceil(len(handles) / columns)
    high = sum(sorted((text.count("\n") + 1 for text in texts), reverse=True)[:rows])
    figure.set_figheight(figure.get_figheight() + 0.135 * (high + bool(title)) + 0.08)
    figure.legend(
        handles,
        texts,
        loc="outside lower center",
        ncols=math.ceil(len(handles) / rows),
        title=title,
        handlelength=2.6,
        columnspacing=1.2,
        labelspacing=0.35,
        borderaxespad=0.2,
    )


def mark_training(axes: Axes, lengths: Iterable[float]) -> Line2D:
    """Draw a line at each training length and return its legend entry."""
    found = sorted(set(lengths))
    for length in found:
        axes.axvline(length, **TRAINING)
    label = "training length" if len(found) == 1 else "training lengths"
    return Line2D([], [], label=label, **TRAINING)


def power_ticks(axes: Axes, low: float, high: float, most: int = 12) -> None:
    """Give the x axis a base-2 logarithm, with ticks written as whole numbers."""
    axes.set_xscale("log", base=2)
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first + 1) / most))
    axes.xaxis.set_major_locator(
        FixedLocator([2.0**i for i in range(first, last + 1, step)])
    )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}"))
