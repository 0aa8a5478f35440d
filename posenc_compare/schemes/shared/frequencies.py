"""Angles shared by sinusoidal and rotary schemes.

Everything is computed in float64: float32 holds a position times an inverse
frequency to 24 bits only, bfloat16 holds integers only up to 256. The products
are elementwise, since a matrix product may run in a lower precision (TF32).
"""

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError


def inverse_frequencies(pairs: int, base: float, device: torch.device) -> Tensor:
    """Return `base ** (-m / pairs)` for `m = 0 ... pairs - 1`.

    Returns:
        `(pair,)` float64, radians per position, from 1 down to nearly 1 / base.
    """
    if not base > 0:
        raise ConfigError(f"base must be greater than 0, got {base}", field="base")
    exponents = torch.arange(pairs, dtype=torch.float64, device=device) / pairs
    return base**-exponents


def position_angles(positions: Tensor, pairs: int, base: float) -> Tensor:
    """Return the angle of every pair at every position.

    Args:
        positions: `(..., seq)` in tokens.
        pairs: number of frequencies.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.

    Returns:
        `(..., seq, pair)` float64, radians.
    """
    frequencies = inverse_frequencies(pairs, base, positions.device)
    return positions[..., None].double() * frequencies
