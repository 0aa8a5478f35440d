"""Sinusoidal encoding.

Adds sines and cosines of the position at geometrically spaced frequencies, so that
a shift of the position is a rotation, the same for all positions.

Formula: `x_p + sin(p w_m), cos(p w_m)` with `w_m = base ** (-2 m / width)`.
Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
Layout: interleaved (sin, cos, sin, cos, ...) as in the paper; concatenated puts all
sines before all cosines. The exponent is `m / (width / 2)` in both; t2t, concatenated
too, divides by `width / 2 - 1`, as tensor2tensor and fairseq do, so that the longest
wavelength is exactly 2 pi times the base. With two channels the only frequency is 1,
where fairseq divides by 0.
"""

from typing import Literal

import torch
from einops import rearrange
from torch import Tensor

from posenc_compare.errors import ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, register
from posenc_compare.schemes.shared.frequencies import position_angles

LAYOUTS = {
    "interleaved": "two ... seq pair -> ... seq (pair two)",
    "concatenated": "two ... seq pair -> ... seq (two pair)",
    "t2t": "two ... seq pair -> ... seq (two pair)",
}


@register(
    "sinusoidal",
    family="absolute",
    source="Vaswani et al. 2017, arXiv:1706.03762",
    real=True,
    identities="products of codes depend only on the distance",
    oracles="positional-encodings 3e-7",
    checked="paper",
)
class Sinusoidal(Scheme):
    """Add sines and cosines of the position. Has no parameters.

    Args:
        geometry: `model_dim` must be even; the width is that of the tokens.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions; with
            t2t, to exactly that.
        layout: where sines and cosines stand, and whose exponents.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["interleaved", "concatenated", "t2t"] = "interleaved",
    ) -> None:
        super().__init__(geometry)
        self.base = base
        self.layout = layout
        _pairs(geometry.model_dim)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        pairs, base = _pairs(x.shape[-1]), self.base
        if self.layout == "t2t":
            base **= pairs / max(pairs - 1, 1)
        angle = position_angles(positions, pairs, base)
        waves = torch.stack([angle.sin(), angle.cos()])
        return x + rearrange(waves, LAYOUTS[self.layout]).to(x.dtype)


def _pairs(width: int) -> int:
    """Return how many pairs of channels there are."""
    if width % 2:
        raise ShapeError(f"sinusoidal: the width must be even, got {width}")
    return width // 2
