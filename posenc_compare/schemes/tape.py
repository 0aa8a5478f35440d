"""Time absolute position encoding (tAPE).

Adds sinusoids whose frequencies are those of the transformer times the width over the
length of the series, so that they spread alike over short and long series.

Formula: `x_p + sin(p w_m d / L), cos(p w_m d / L)` with `w_m = base ** (-2 m / d)`, for
tokens of width d and series of length L.
Source: Foumani et al. 2023, arXiv:2305.16642, from the authors' released code
(ConvTran, Models/AbsolutePositionalEncoding.py).
Layout: interleaved (sin, cos, sin, cos, ...), as released.
Length: that of the series in the code, which is fixed for a data set; here that of
training. Longer texts keep its frequencies.
Left out: the learned bias of the offset that the code adds after the softmax (`erpe`).
Name: not TAPE, the contextualised equivariant encoding.
"""

import torch
from einops import rearrange
from torch import Tensor

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, register
from posenc_compare.schemes.shared.frequencies import position_angles


@register(
    "tape",
    family="absolute",
    source="Foumani et al. 2023, arXiv:2305.16642",
    real=True,
    identities="equals `sinusoidal` if the length is the width",
    checked="authors' code, paper not opened",
)
class Tape(Scheme):
    """Add sinusoids at frequencies times width over length. Has no parameters.

    Args:
        geometry: `model_dim` must be even; the width is that of the tokens.
        base: of the frequencies.
        length: of a series, in positions; 0 means the geometry's length.
    """

    def __init__(
        self, geometry: Geometry, *, base: float = 10_000.0, length: int = 0
    ) -> None:
        super().__init__(geometry)
        if length < 0:
            raise ConfigError(f"tape: length must be at least 1, got {length}")
        self.base = base
        self.length = length or geometry.length
        _pairs(geometry.model_dim)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = x.shape[-1]
        stretched = positions.double() * (width / self.length)
        angle = position_angles(stretched, _pairs(width), self.base)
        waves = torch.stack([angle.sin(), angle.cos()])
        return x + rearrange(waves, "two ... seq pair -> ... seq (pair two)").to(
            x.dtype
        )


def _pairs(width: int) -> int:
    """Return how many pairs of channels there are."""
    if width % 2:
        raise ShapeError(f"tape: the width must be even, got {width}")
    return width // 2
