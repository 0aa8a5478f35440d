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

from posenc_compare.errors import NoCodeError
from posenc_compare.measures.codes import position_codes
from posenc_compare.measures.measure import (
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.probe import Probe
from posenc_compare.measures.rounding import NOTE as ROUNDING
from posenc_compare.schemes import Variant
from posenc_compare.settings.seeds import stream_seed
from posenc_compare.train.progress import Progress

SHIFTS = (1, 2, 4, 8, 16, 32, 64)
FEW = 4  # positions for each channel, below which a note says what noise would have
MANY = 4096  # positions that a map is fitted on, and as many that it is scored on,
PER_CHANNEL = 8  # or so many for each channel, if that is more

LINEAR = Quantity(
    "linear_residual",
    unit="ratio to the spread of the codes",
    better="neither",
    zero="one linear map moves every code by k; 1 is as bad as guessing the mean",
    x="shift k, in positions",
    title="shift by 1, linear residual (ratio)",
)
AFFINE = Quantity(
    "affine_residual",
    unit="ratio to the spread of the codes",
    better="neither",
    zero="one affine map moves every code by k; 1 is as bad as guessing the mean",
    x="shift k, in positions",
)
NOISE = Quantity(
    "linear_residual_of_noise",
    unit="ratio to the spread of the codes",
    better="neither",
    zero="never; above 1 by the variance of the fit",
    title="shift by 1, residual of noise (ratio)",
)


@register_measure(
    "shift_linearity",
    quantities=(LINEAR, NOISE, AFFINE),
    views=(Headline(LINEAR, "", 1), Headline(NOISE)),
    version=4,
)
def shift_linearity(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Residual of the best linear and affine map from PE(p) to PE(p + k).

    The map is fitted on a random half of the positions and scored on the other; of
    more than 8192 positions, or 16 for each channel, so many are drawn. With few
    positions for each channel the fit follows the noise of its half.

    Returns:
        A row per shift and kind of map, and the linear residual that a table of noise
        would have; a note says where that is far above 1. Relative schemes have no code
        of a position and give one row of each with that reason; see `shift_error` for
        them.
    """
    scheme = probe.build(variant)
    try:
        codes = position_codes(scheme, probe)
    except NoCodeError as error:
        return _none(str(error))
    shifts = [k for k in SHIFTS if 4 * k <= min(probe.sides)]
    if not shifts:
        return _none("needs at least 4 positions along every axis")
    starts, steps = probe.movable(shifts[-1]), [k * probe.stride for k in shifts]
    if probe.grid and len(starts) // 2 < sum(probe.sides) - 1:
        # Codes of rows and columns span so many dimensions, which a fit must see.
        return _none("needs a larger grid")
    fitted = min(len(starts) // 2, enough(codes.shape[1]))
    noise = _of_noise(fitted, codes.shape[1])
    rows = [noise]
    for quantity, ones in ((LINEAR, False), (AFFINE, True)):
        residuals = shift_residuals(codes, starts, steps, ones, probe.seed)
        for k, residual in zip(shifts, residuals, strict=True):
            note = noise.note if residual is not None else "all codes are equal"
            if residual and residual <= _rounding(codes):
                note = ROUNDING
            rows.append(Row(quantity.name, residual, k, note=note))
    return Result(rows)


def enough(channels: int) -> int:
    """Return how many positions determine a map: more only take time.

    Noise has a residual of at most 1.07 then, where 1 is that of endless positions.
    """
    return max(MANY, PER_CHANNEL * channels)


def noise_residual(fitted: int, channels: int) -> float | None:
    """Return the expected linear residual of independent normal codes.

    The fit of `fitted` rows, if they are more, adds channels / (fitted - channels - 1)
    of the variance to the whole of it that is missed; the shortest fit of fewer rows
    adds fitted / (channels - fitted - 1). Both are means of inverse Wishart matrices.
    None where the mean is infinite, at about as many rows as channels.
    """
    surplus = abs(fitted - channels) - 1
    return (1 + min(fitted, channels) / surplus) ** 0.5 if surplus > 0 else None


def _none(note: str) -> Result:
    """Return rows that say why there is no number."""
    return Result(
        [Row(LINEAR.name, None, 1, note=note), Row(NOISE.name, None, note=note)]
    )


def _of_noise(fitted: int, channels: int) -> Row:
    """Return the row of noise; it notes where there are few positions for the fit."""
    residual = noise_residual(fitted, channels)
    if residual is None:
        return Row(NOISE.name, None, note=f"{fitted} positions for {channels} channels")
    few = fitted < FEW * channels
    note = f"{fitted} positions for {channels} channels: noise has {residual:.2f}"
    return Row(NOISE.name, residual, note=note if few else "")


def _rounding(codes: Tensor) -> float:
    """Return what rounding may leave of a residual that is 0 in exact numbers.

    Each direction that the fit leaves out, at most one per channel, holds up to
    `max(codes.shape)` roundings of the largest.
    """
    return torch.finfo(codes.dtype).eps * max(codes.shape) * codes.shape[1]


def shift_residuals(
    codes: Tensor, starts: Tensor, steps: list[int], affine: bool, seed: int
) -> list[float | None]:
    """Return the held-out relative residual of the best map, for each shift.

    Args:
        codes: `(position, channel)` float64.
        starts: rows of `codes` that every shift can move.
        steps: how many rows further on each shift leads.
        affine: allow a constant to be added.
        seed: of the split into halves, and of what is drawn of each.

    Returns:
        `|PE(p + k) - map(PE(p))| / |PE(p + k) - mean|` over the held-out positions;
        None where all codes are equal.
    """
    generator = torch.Generator().manual_seed(stream_seed("halves", seed))
    order = torch.randperm(len(starts), generator=generator).to(codes.device)
    halves = starts[order].tensor_split([len(starts) // 2])
    fit, held_out = (half[: enough(codes.shape[1])] for half in halves)
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
