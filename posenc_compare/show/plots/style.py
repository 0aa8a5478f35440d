"""How every plot looks: one colour, dash and marker for each scheme, and the fonts."""

import functools
import io
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from posenc_compare.records.labels import without_settings
from posenc_compare.records.record import Record
from posenc_compare.registry import FAMILIES, SCHEMES, Entry
from posenc_compare.show.plots.paper import PAGE, paper_width
from posenc_compare.show.ranking import YEAR, by_family

SCREEN = 160  # dots per inch where a notebook shows a figure
LABEL = 40  # characters of a label that are shown
FONT = "DejaVu Sans"  # comes with matplotlib

# Hues that read well as thin lines, of the palettes colorblind and dark of seaborn.
COLOURS = [
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#56b4e9", "#ca9161"),
    *("#3c3c3c", "#591e71", "#8c0800", "#001c7f", "#12711c", "#a23582", "#006374"),
]
# Of schemes that are not built in, from the palette bright of seaborn.
OWN = ["#e8000b", "#8b2be2", "#023eff", "#f14cc1", "#1ac938"]
# Their numbers have no common factor, so that a turn of both has every pair once.
DASHES: tuple[Any, ...] = ("", (3, 1.2), (1, 1), (5, 1.2, 1, 1.2), (7, 2.5), (1, 2.5))
DASHES += ((4, 1, 1, 1, 1, 1), (2, 2), (6, 1, 2, 1), (9, 1, 1, 1))
MARKERS = ("o", "s", "^", "D", "v", "X", "<", ">", "P")
OWN_MARKERS = ("d", "p", "h")  # of schemes that are not built in
FAINT, MIDDLE = "0.85", "0.45"  # greys
FIRST = ("nope", "sinusoidal", "rope", "alibi", "learned", "t5_bias", "kerple_log")
FIRST += ("integer", "binary", "shaw", "transformer_xl", "fire", "deberta")
"""Schemes that are compared most."""
SCALINGS = ("as trained", "pi", "ntk", "ntk_dynamic", "ntk_by_parts", "yarn", "llama3")
SCALINGS += ("longrope",)
RC: dict[Any, Any] = {
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
    **{f"{x}tick.major.size": 2.5 for x in "xy"},
    **{f"{x}tick.major.width": 0.6 for x in "xy"},
    "legend.frameon": False,
    "legend.labelspacing": 0.3,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "svg.hashsalt": "posenc-compare",
}


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

    @property
    def line(self) -> dict[str, Any]:
        """Return how a line looks, as matplotlib asks."""
        dash = (0, self.dash) if self.dash else "-"
        face = {"color": self.colour, "linestyle": dash, "marker": self.marker}
        return {**face, "markeredgecolor": "w", "markeredgewidth": 0.4}

    def dot(self) -> Line2D:
        """Return a marker that looks so, for a legend."""
        return Line2D([], [], color=self.colour, marker=self.marker, linestyle="")


def looks(records: Iterable[Record]) -> dict[str, Look]:
    """Return the look of every label of records, in the order of legends.

    The order is by family, then by publication. Colour, dash and marker depend on the
    scheme and its options alone, so that it has the same ones in all plots of all runs.
    No two labels have the same dash and marker, so that lines differ in grey, too: of
    one scheme under several settings, and of two labels that are not built in and would
    have the same, the later takes another marker, or else another dash.
    """
    made = {record.label: record for record in records}
    family = {label: record.family for label, record in made.items()}
    scheme = {label: without_settings(record).label for label, record in made.items()}
    faces = _faces()
    published = {name: place for place, name in enumerate(faces)}

    def place(label: str) -> tuple[int, int, str]:
        of, _ = by_family(family[label], label)
        return of, published.get(scheme[label], len(published)), label

    found: dict[str, Look] = {}
    texts: set[str] = set()
    waiting = {own: faces[own][1:] for own in scheme.values() if own in faces}
    taken = {*waiting.values()}
    for label in sorted(family, key=place):
        text, copy = safe(label), 1
        while text in texts:  # of labels that begin alike
            copy += 1
            text = safe(label, LABEL - 5) + f" ({copy})"
        own = scheme[label]
        colour, *pair = faces.get(own) or _face_of(own)
        dash, marker = pair
        if not waiting.pop(own, None):  # which its first label takes
            free = (one for one in _pairs_from(dash, marker) if one not in taken)
            dash, marker = next(free, pair)
        texts.add(text)
        taken.add((dash, marker))
        found[label] = Look(text, colour, dash, marker, safe(family[label]))
    return found


def looks_in_turn(texts: Iterable[str]) -> dict[str, Look]:
    """Return looks by order, for labels that are not schemes, such as scalings."""
    return {
        text: Look(text, COLOURS[i % len(COLOURS)], *_pair(i), "")
        for i, text in enumerate(texts)
    }


def _pair(place: int) -> tuple[Any, str]:
    """Return a dash and a marker; of neighbours, both differ."""
    return DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)]


def _pairs_from(dash: Any, marker: str) -> Iterator[tuple[Any, str]]:
    """Return all dashes and markers from these on, those of one dash first."""
    markers = MARKERS if marker in MARKERS else OWN_MARKERS
    i, j = DASHES.index(dash), markers.index(marker)
    return product(DASHES[i:] + DASHES[:i], markers[j:] + markers[:j])


def looks_of_scalings(texts: Sequence[str]) -> dict[str, Look]:
    """Return the looks of scalings; each keeps its own, whichever others are drawn."""
    others = [text for text in texts if text not in SCALINGS]
    found = looks_in_turn([*SCALINGS, *others])
    return {text: found[text] for text in texts}


@functools.cache
def _faces() -> dict[str, tuple[str, Any, str]]:
    """Return colour, dash and marker of each scheme of this package.

    Those of `FIRST` differ in colour. In the order of publication, each other scheme
    takes the colour that its family uses least.
    """
    published = sorted(SCHEMES.built_in(), key=_publication)
    family = {entry.name: FAMILIES.index(entry.facts["family"]) for entry in published}
    within: Counter[tuple[int, str]] = Counter()
    total: Counter[str] = Counter()
    found = {}
    turn = [*dict.fromkeys([*FIRST, *sorted(family, key=family.__getitem__)])]
    for name in dict.fromkeys([*FIRST, *family]):
        own = family[name]
        colour = min(COLOURS, key=lambda c: (within[own, c], total[c]))
        found[name] = colour, *_pair(turn.index(name))
        within[own, colour] += 1
        total[colour] += 1
    return {name: found[name] for name in family}


def _publication(entry: Entry) -> tuple[bool, int, str]:
    year = YEAR.search(entry.facts.get("source", ""))
    return entry.facts["family"] != "none", int(year[0]) if year else 0, entry.name


def _face_of(label: str) -> tuple[str, Any, str]:
    """Return colour, dash and marker of any other label, by a checksum of its text.

    Its marker is one that no built-in scheme has, and so is the colour of one that is
    not built in. A scheme with options has another colour than without.
    """
    number = zlib.crc32(label.encode("utf-8", "replace"))
    plain, with_options, _ = label.partition(":")
    built_in = _faces().get(plain)
    colours = COLOURS if built_in else OWN
    if with_options:
        taken, _, _ = built_in or _face_of(plain)
        colours = [one for one in colours if one != taken]
    number, colour = divmod(number, len(colours))
    number, dash = divmod(number, len(DASHES))
    return colours[colour], DASHES[dash], OWN_MARKERS[number % len(OWN_MARKERS)]


def safe(text: str, length: int = LABEL) -> str:
    """Return text that draws as it is written: short and in one line.

    Control characters, and those the font lacks, become `?`.
    """
    glyphs = _glyphs()
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
def _glyphs() -> frozenset[int]:
    font = font_manager.get_font(font_manager.findfont(FONT))
    return frozenset(font.get_charmap())


@contextmanager
def in_style() -> Iterator[None]:
    """Draw inside in this style, whatever the user's own settings are."""
    import seaborn as sns

    with mpl.rc_context():
        mpl.rcdefaults()
        paper = sns.plotting_context("paper", font_scale=0.8)
        chosen: dict[Any, Any] = {**paper, **sns.axes_style("ticks"), **RC}
        mpl.rcParams.update(chosen)
        yield


def render(figure: Figure, ending: str, dpi: int) -> bytes:
    """Return the bytes of a PNG, SVG or PDF, the same for the same figure.

    A PNG is kept small by 256 colours.
    """
    data = io.BytesIO()
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with in_style():
        figure.savefig(data, format=ending, dpi=dpi, metadata=date.get(ending))
    if ending != "png":
        return data.getvalue()
    small = io.BytesIO()
    image = Image.open(data).convert("RGB")
    # Median cut, the default, would change colours that few pixels have.
    way = Image.Quantize.MAXCOVERAGE
    few = image.quantize(method=way, kmeans=1, dither=Image.Dither.NONE)
    few.save(small, "png", optimize=True, dpi=(dpi, dpi))
    return small.getvalue()


class Picture(Figure):
    """A figure that a notebook shows, though pyplot does not know of it."""

    def _repr_png_(self) -> bytes:
        return render(self, "png", SCREEN)


def new_figure(height: float) -> Figure:
    """Return an empty figure in inches, outside pyplot and any window.

    Its width is that of the paper, where a user asks for one.
    """
    return Picture(figsize=(paper_width(PAGE), height), layout="constrained")
