"""Triangle waves.

Adds triangle waves of the position at the frequencies of the sinusoidal encoding.

Source: own example of a plugin; no paper, and no claim that it helps.
Layout: interleaved. Channel 2m is the wave, channel 2m + 1 the same wave a quarter
of a turn ahead; both have the zeros and the extremes of the sine and the cosine.
"""

import math

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes import Geometry, Scheme, register


def triangle(turns: Tensor) -> Tensor:
    """Return the triangle wave of period 1 that is 0 at 0 and 1 at 1/4."""
    return 1 - 4 * ((turns + 0.25) % 1 - 0.5).abs()


@register("triangle", family="absolute", source="own example")
class Triangle(Scheme):
    """Add triangle waves of the position. Has no parameters.

    Args:
        geometry: not used; the width is that of the tokens.
        base: ratio of the longest to the shortest wavelength.
    """

    def __init__(self, geometry: Geometry, *, base: float = 10_000.0) -> None:
        super().__init__(geometry)
        if not base > 0:
            raise ConfigError(f"triangle: base must be greater than 0, got {base}")
        self.base = base

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = x.shape[-1]
        if width % 2:
            raise ShapeError(f"triangle: the width must be even, got {width}")
        pair = torch.arange(width // 2, device=x.device, dtype=torch.float64)
        frequency = self.base ** (-2 * pair / width)  # (pair,) radians per position
        turns = positions[..., None] * frequency / (2 * math.pi)  # (..., seq, pair)
        waves = torch.stack([triangle(turns), triangle(turns + 0.25)], dim=-1)
        return x + waves.flatten(-2).to(x.dtype)
