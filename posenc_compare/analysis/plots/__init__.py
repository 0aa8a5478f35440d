"""Plots, one file each: functions of records alone, that run no scheme.

Every plot takes the records of a run, with all measures and schemes, and returns a
figure, or None if they hold nothing for it.
"""

from pathlib import Path
from typing import Any

from posenc_compare.analysis.plots.bias_maps import draw_bias_maps
from posenc_compare.analysis.plots.clock_hands import draw_clock_hands
from posenc_compare.analysis.plots.codes import draw_codes
from posenc_compare.analysis.plots.codes_small import draw_codes_small
from posenc_compare.analysis.plots.extrapolation import draw_extrapolation
from posenc_compare.analysis.plots.perturbation import draw_perturbation
from posenc_compare.analysis.plots.position_bits import draw_position_bits
from posenc_compare.analysis.plots.similarity import draw_similarity
from posenc_compare.analysis.plots.style import Draw, save
from posenc_compare.analysis.plots.uniqueness import draw_uniqueness

PLOTS: dict[str, Draw] = {
    "extrapolation": draw_extrapolation,
    "position_bits": draw_position_bits,
    "codes": draw_codes,
    "codes_small": draw_codes_small,
    "bias_maps": draw_bias_maps,
    "clock_hands": draw_clock_hands,
    "similarity": draw_similarity,
    "perturbation": draw_perturbation,
    "uniqueness": draw_uniqueness,
}

__all__ = ["PLOTS", "draw_all"]


def draw_all(records: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Write every plot that the records allow, as PNG and SVG.

    Args:
        records: as `Store.records` yields them.
        folder: where `NAME.png` and `NAME.svg` go; made if it is missing.

    Returns:
        The files written, in the order of `PLOTS`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, draw in PLOTS.items():
        figure = draw(records)
        if figure is not None:
            written += save(figure, folder / name)
    return written
