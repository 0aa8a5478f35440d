"""The plots of a report, each as an address that holds the whole image."""

import base64
import re
import warnings
from dataclasses import dataclass

from posenc_compare.analysis.records.load import Warn
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots import images
from posenc_compare.registry import PLOTS

DPI = 160  # of plots as pixels: sharp at twice the size of a screen's pixels
LIGHT = 300_000  # bytes up to which a plot is SVG; heat maps are less as PNG
MOST = 3_000_000  # bytes of all plots of a page; as text they are a third more
SCALE = 2  # pixels of a screen for a point of paper: text is read from further away
WIDTH = re.compile(rb'<svg[^>]* width="([0-9.]+)pt"')
KINDS = {"svg": "svg+xml", "png": "png"}
# The font that plots are laid out in, and others of the same widths.
FONT = b"'DejaVu Sans'"
FONTS = FONT + b", 'Bitstream Vera Sans', Verdana, sans-serif"


@dataclass(frozen=True)
class Plate:
    """A plot of a page.

    Attributes:
        name: of the plot.
        caption: beneath it.
        measure: beside whose tables it stands; empty for none.
        width: in pixels, where there is room.
        address: `data:` and the image.
    """

    name: str
    caption: str
    measure: str
    width: int
    address: str


def plates_of(records: list[Record], warn: Warn = warnings.warn) -> list[Plate]:
    """Draw the plots of a page: SVG where that is light, PNG otherwise.

    Args:
        records: as `load_records` returns them.
        warn: called with a line for every plot that is not drawn, or too heavy.
    """
    files = images(records, warn, endings=("svg",))
    heavy = {name.removesuffix(".svg") for name in files if len(files[name]) > LIGHT}
    pixels = images(records, warn, endings=("png",), dpi=DPI, names=heavy)
    found, held = [], 0
    for file, image in files.items():
        name, ending = file.removesuffix(".svg"), "svg"
        if name in heavy:
            image, ending = pixels[f"{name}.png"], "png"
        if held + len(image) > MOST:
            warn(f"plot {name}: left out of the page, which is full; `plot` draws it")
            continue
        held += len(image)
        found.append(plate(name, ending, image))
    return found


def plate(name: str, ending: str, image: bytes) -> Plate:
    """Return a plot as it stands in a page.

    Args:
        name: of a registered plot.
        ending: svg or png.
        image: the file's bytes.
    """
    facts = PLOTS.entry(name).facts
    if ending == "svg":
        image = image.replace(FONT, FONTS)
    text = base64.b64encode(image).decode()
    address = f"data:image/{KINDS[ending]};base64,{text}"
    return Plate(
        name,
        facts["caption"],
        facts.get("measure", ""),
        round(SCALE * _points(image)),
        address,
    )


def _points(image: bytes) -> float:
    """Return the width of an SVG or a PNG in points; there are 72 to the inch."""
    if image.startswith(b"\x89PNG"):
        return int.from_bytes(image[16:20]) / DPI * 72
    found = WIDTH.search(image)
    assert found is not None
    return float(found[1])
