"""Integer positions.

Adds the position itself, the same number, to every channel of the token vector.

Formula: `x_p + p / length`, or `x_p + p`, in every channel.
Source: no primary source; the first idea of every textbook, kept as a baseline.
Convention: normalised divides by the length the scheme was built for, so the code
of a position changes with that length; raw adds the integer, which dwarfs the token.
A LayerNorm that follows subtracts the mean over channels and with it the whole code.
"""

from torch import Tensor

from posenc_compare.schemes.scheme import Geometry, Scheme, register


@register(
    "integer",
    family="absolute",
    source="no primary source",
    real=True,
    identities="a LayerNorm removes it",
    checked="no paper: textbooks",
)
class Integer(Scheme):
    """Add the position number to every channel. Has no parameters.

    Args:
        geometry: `length` is the divisor of normalised positions.
        normalised: divide by the length, so that trained positions lie in [0, 1).
    """

    def __init__(self, geometry: Geometry, *, normalised: bool = True) -> None:
        super().__init__(geometry)
        self.step = 1 / geometry.length if normalised else 1.0

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + (positions.double() * self.step)[..., None].to(x.dtype)
