"""Smoothness: how far is the code of a position from that of the next?

Binary codes jump: from 7 to 8 four bits flip at once, from 8 to 9 a single one.
Sinusoids move by steps of one length.
"""

import torch
from torch import Tensor

from posenc_compare.errors import NoCodeError
from posenc_compare.measures.codes import code_of
from posenc_compare.measures.measure import (
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Variant
from posenc_compare.train.progress import Progress

LARGEST = Quantity(
    "largest_step",
    unit="length of the code vector",
    better="neither",
    zero="all codes are equal",
)
MEAN = Quantity(
    "mean_step",
    unit="length of the code vector",
    better="neither",
    zero="all codes are equal",
)
JUMP = Quantity(
    "step_unevenness",
    unit="ratio of the largest step to the mean step",
    better="neither",
    zero="never; 1 means that all steps have one length",
    title="largest step (ratio to mean)",
)
FLIPS = Quantity(
    "channels_changed",
    unit="channels, counting identical ones once",
    better="neither",
    zero="all codes are equal",
)


@register_measure(
    "smoothness",
    quantities=(LARGEST, MEAN, JUMP, FLIPS),
    views=(Headline(JUMP),),
    version=3,
)
def smoothness(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Length of the steps `|PE(p + 1) - PE(p)|`, and how many channels change in one.

    On a grid the steps are those to the next cell along each axis.

    Returns:
        `largest_step`, `mean_step` and their ratio; `channels_changed`, mean and
        largest over the steps: for binary codes, the bits that flip.
    """
    scheme = probe.build(variant)
    try:
        code = code_of(scheme, probe)
    except NoCodeError as error:
        return Result([Row(JUMP.name, None, note=str(error))])
    note = f"over {code.of}s"
    codes = code.values.double()
    steps = _steps(codes, code.sides).norm(dim=1)
    mean, largest = float(steps.mean()), float(steps.max())
    distinct = _steps(torch.unique(codes, dim=1), code.sides)
    changed = (distinct != 0).sum(dim=1).double()
    uneven = Row(JUMP.name, largest / mean if mean else None, note=note)
    if not mean:
        uneven = Row(JUMP.name, None, note="all codes are equal")
    return Result(
        [
            Row(LARGEST.name, largest, note=note),
            Row(MEAN.name, mean, note=note),
            uneven,
            Row(FLIPS.name, float(changed.mean()), case="mean", note=note),
            Row(FLIPS.name, float(changed.max()), case="largest", note=note),
        ]
    )


def _steps(codes: Tensor, sides: tuple[int, ...]) -> Tensor:
    """Return the differences of neighbours along every axis, `(step, channel)`."""
    cells = codes.unflatten(0, sides)
    return torch.cat(
        [cells.diff(dim=axis).flatten(0, -2) for axis in range(len(sides))]
    )
