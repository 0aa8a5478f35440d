"""Shift linearity: is moving by k positions one and the same linear map everywhere?

If it is, a single matrix turns the code of any position into that of the position k
further on, so attention can learn to look k back wherever it stands. Sinusoids are
built for this; bits and learned tables are not.

On a grid a shift moves by k along every axis. Codes made of one for the row and one for
the column pass there, whatever they are, if each has as many channels of its own as
there are rows or columns: then some matrix fits.
"""

import torch
from torch import Tensor

from posenc_compare.analysis.core.progress import Progress
from posenc_compare.analysis.core.seeds import stream_seed
from posenc_compare.analysis.measures.codes import code_of
from posenc_compare.analysis.measures.measure import (
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.analysis.measures.probe import Probe
from posenc_compare.errors import NoCodeError
from posenc_compare.schemes import Variant

SHIFTS = (1, 2, 4, 8, 16, 32, 64)

LINEAR = Quantity(
    "linear_residual",
    unit="ratio to the spread of the codes",
    better="lower",
    zero="one linear map moves every code by k; 1 is as bad as guessing the mean",
    x="shift k, in positions",
    title="shift by 1, linear residual (ratio)",
)
AFFINE = Quantity(
    "affine_residual",
    unit="ratio to the spread of the codes",
    better="lower",
    zero="one affine map moves every code by k; 1 is as bad as guessing the mean",
    x="shift k, in positions",
)


@register_measure(
    "shift_linearity", quantities=(LINEAR, AFFINE), views=(Headline(LINEAR, "", 1),)
)
def shift_linearity(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Residual of the best linear and affine map from PE(p) to PE(p + k).

    The map is fitted on a random half of the positions and scored on the other.

    Returns:
        A row per shift and kind of map. Relative schemes have no code of a position
        and give one row with that reason; see `shift_error` for them.
    """
    scheme = probe.build(variant)
    try:
        code = code_of(scheme, probe)
    except NoCodeError as error:
        return Result([Row(LINEAR.name, None, 1, note=str(error))])
    if code.of != "position":
        return Result([Row(LINEAR.name, None, 1, note="has no code of a position")])
    codes = code.values.double()
    shifts = [k for k in SHIFTS if 4 * k <= min(probe.sides)]
    if not shifts:
        note = "needs at least 4 positions along every axis"
        return Result([Row(LINEAR.name, None, 1, note=note)])
    starts, steps = probe.movable(shifts[-1]), [k * probe.stride for k in shifts]
    if probe.grid and len(starts) // 2 < sum(probe.sides) - 1:
        # Codes of rows and columns span so many dimensions, which a fit must see.
        return Result([Row(LINEAR.name, None, 1, note="needs a larger grid")])
    rows = []
    for quantity, ones in ((LINEAR, False), (AFFINE, True)):
        residuals = shift_residuals(codes, starts, steps, ones, probe.seed)
        for k, residual in zip(shifts, residuals, strict=True):
            note = "" if residual is not None else "all codes are equal"
            rows.append(Row(quantity.name, residual, k, note=note))
    return Result(rows)


def shift_residuals(
    codes: Tensor, starts: Tensor, steps: list[int], affine: bool, seed: int
) -> list[float | None]:
    """Return the held-out relative residual of the best map, for each shift.

    Args:
        codes: `(position, channel)` float64.
        starts: rows of `codes` that every shift can move.
        steps: how many rows further on each shift leads.
        affine: allow a constant to be added.
        seed: of the split into halves.

    Returns:
        `|PE(p + k) - map(PE(p))| / |PE(p + k) - mean|` over the held-out positions;
        None where all codes are equal.
    """
    generator = torch.Generator().manual_seed(stream_seed("halves", seed))
    order = torch.randperm(len(starts), generator=generator).to(codes.device)
    fit, held_out = starts[order].tensor_split([len(starts) // 2])
    inputs = codes
    if affine:
        inputs = torch.cat([inputs, inputs.new_ones(len(inputs), 1)], dim=1)
    # Codes are nearly rank-deficient, so small singular values are cut: dividing by
    # them would fit rounding.
    u, sizes, v = torch.linalg.svd(inputs[fit], full_matrices=False)
    cut = sizes[0] * max(u.shape) * torch.finfo(sizes.dtype).eps
    inverse = torch.where(sizes > cut, 1 / sizes, 0.0)
    residuals: list[float | None] = []
    for step in steps:
        best = v.mT @ (inverse[:, None] * (u.mT @ codes[fit + step]))
        target = codes[held_out + step]
        missed = (target - inputs[held_out] @ best).norm()
        spread = (target - target.mean(dim=0)).norm()
        residuals.append(float(missed / spread) if spread > 0 else None)
    return residuals
