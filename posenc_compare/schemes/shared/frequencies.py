"""Angles and turns shared by sinusoidal and rotary schemes.

Everything is computed in float64: float32 holds a position times an inverse
frequency to 24 bits only, bfloat16 holds integers only up to 256. The products
are elementwise, since a matrix product may run in a lower precision (TF32).
"""

import torch
from einops import rearrange
from torch import Tensor

from posenc_compare.errors import ConfigError

PAIRS = {"adjacent": "(pair two)", "half": "(two pair)"}


def inverse_frequencies(pairs: int, base: float, device: torch.device) -> Tensor:
    """Return `base ** (-m / pairs)` for `m = 0 ... pairs - 1`.

    Returns:
        `(pair,)` float64, radians per position, from 1 down to nearly 1 / base.

    Raises:
        ConfigError: if the base is not positive.
    """
    if not base > 0:
        raise ConfigError(f"base must be greater than 0, got {base}")
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


def pair_count(scheme: str, head_dim: int) -> int:
    """Return how many pairs of channels a head has.

    Raises:
        ConfigError: if one channel is left over.
    """
    if head_dim % 2:
        raise ConfigError(f"{scheme}: head_dim must be even, got {head_dim}")
    return head_dim // 2


def unit_turns(angles: Tensor) -> Tensor:
    """Return `cos + i sin` of angles `(..., seq, pair)`, the same for all heads."""
    return torch.polar(torch.ones_like(angles), angles)[..., None, :, :]


def turn_pairs(x: Tensor, turns: Tensor, layout: str) -> Tensor:
    """Multiply pairs of channels, read as complex numbers.

    Args:
        x: `(batch, heads, seq, head_dim)`.
        turns: complex128, broadcasts to `(batch, heads, seq, pair)`; the channels
            beyond these pairs stay as they are.
        layout: which two channels make a pair, a key of `PAIRS`.

    Returns:
        `(batch, heads, seq, head_dim)` in the dtype of `x`.
    """
    if not x.numel():
        return x  # torch reads no complex numbers from an empty tensor of any strides
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    turns = turns.to(torch.promote_types(wide.dtype, torch.complex64))
    width = 2 * turns.shape[-1]
    pairs = rearrange(
        wide[..., :width], f"... {PAIRS[layout]} -> ... pair two", two=2
    ).contiguous()
    turned = torch.view_as_real(torch.view_as_complex(pairs) * turns)
    turned = rearrange(turned, f"... pair two -> ... {PAIRS[layout]}")
    return torch.cat([turned, wide[..., width:]], dim=-1).to(x.dtype)
