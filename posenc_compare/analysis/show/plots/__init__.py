"""Plots, one file each: functions of records alone, that run no scheme.

Every plot takes the records of a run, with all measures and schemes, and returns a
figure, or None if they hold nothing for it.
"""

import warnings
from pathlib import Path

from posenc_compare.analysis.core.files import write_file
from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.records.load import Warn
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.bias_maps import draw_bias_maps
from posenc_compare.analysis.show.plots.clock_hands import draw_clock_hands
from posenc_compare.analysis.show.plots.code_maps import draw_codes
from posenc_compare.analysis.show.plots.codes_small import draw_codes_small
from posenc_compare.analysis.show.plots.extrapolation import draw_extrapolation
from posenc_compare.analysis.show.plots.grid_maps import draw_grid_maps
from posenc_compare.analysis.show.plots.perturbation import draw_perturbation
from posenc_compare.analysis.show.plots.position_bits import draw_position_bits
from posenc_compare.analysis.show.plots.scalings import draw_scalings
from posenc_compare.analysis.show.plots.similarity import draw_similarity
from posenc_compare.analysis.show.plots.style import Draw, render
from posenc_compare.analysis.show.plots.uniqueness import draw_uniqueness
from posenc_compare.errors import StoreError

PLOTS: dict[str, Draw] = {
    "extrapolation": draw_extrapolation,
    "scalings": draw_scalings,
    "position_bits": draw_position_bits,
    "codes": draw_codes,
    "codes_small": draw_codes_small,
    "bias_maps": draw_bias_maps,
    "grid_maps": draw_grid_maps,
    "clock_hands": draw_clock_hands,
    "similarity": draw_similarity,
    "perturbation": draw_perturbation,
    "uniqueness": draw_uniqueness,
}

CAPTIONS = {
    "extrapolation": "Bits per byte against the test length: thick lines are means "
    "over seeds, thin ones single seeds.",
    "scalings": "Bits per byte of networks trained once and read under every scaling: "
    "thick lines are means over seeds, thin ones single seeds.",
    "position_bits": "Bits per byte at every position of the longest window: mean "
    "over seeds, the shade spans all of them.",
    "codes": "The vector that each absolute scheme adds at each position; grey where "
    "it defines none.",
    "codes_small": "The same vectors for the first positions of a narrow model.",
    "bias_maps": "What a scheme adds to the logit of every query and key; grey where "
    "a query may not look.",
    "grid_maps": "How the middle cell of a grid, framed, sees every cell, before any "
    "training: what is added to the logit, or the cosine of both codes; grey where it "
    "may not look. Of three axes, the plane in the middle of the first.",
    "clock_hands": "How far a rotary scheme turns pairs of channels at the first "
    "positions.",
    "similarity": "Mean cosine of two codes, and mean logit of equal tokens, by their "
    "distance.",
    "perturbation": "How much each scheme changes what it is applied to: means over "
    "seeds.",
    "uniqueness": "Whether every position or distance has a code of its own: means "
    "over seeds.",
}
DPI = 300

__all__ = ["CAPTIONS", "PLOTS", "draw_all", "images"]


def images(
    records: list[Record],
    warn: Warn = warnings.warn,
    *,
    endings: tuple[str, ...] = ("png", "svg"),
    dpi: int = DPI,
) -> dict[str, bytes]:
    """Return every plot that the records allow, as the bytes of its files.

    Args:
        records: as `analysis.reading` returns them.
        warn: called with a line for every plot that cannot be drawn.
        endings: formats of every plot.
        dpi: resolution of PNG.

    Returns:
        Bytes by file name, in the order of `PLOTS`.
    """
    found: dict[str, bytes] = {}
    for name, draw in PLOTS.items():
        try:
            figure = draw(records)
            if figure is not None:
                files = {f"{name}.{e}": render(figure, e, dpi) for e in endings}
                found.update(files)
        except Exception as error:  # odd arrays fail in many ways
            problem = f"{type(error).__name__}: {error}"
            warn(clean(f"plot {name}: not drawn: {problem}", 200))
    return found


def draw_all(
    records: list[Record], folder: Path, warn: Warn = warnings.warn
) -> list[Path]:
    """Write every plot that the records allow, as PNG and SVG.

    Args:
        records: as `analysis.reading` returns them.
        folder: where `NAME.png` and `NAME.svg` go; made if it is missing.
        warn: called with a line for every plot that cannot be drawn.

    Returns:
        The files written, in the order of `PLOTS`.

    Raises:
        StoreError: if one cannot be written.
    """
    files = images(records, warn)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_file(folder / name, data)
    except OSError as error:
        raise StoreError(f"{folder}: must take plots, got {error}") from error
    return [folder / name for name in files]
