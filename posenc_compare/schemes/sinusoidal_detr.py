"""Sinusoidal encoding of the place in an image (DETR).

Adds sines and cosines of row and column, each divided by the side of the image. A
larger image samples the same range of codes more finely. `sinusoidal_2d` instead gives
new codes to new rows and columns.

Formula: `x_p + [sin(a w_0), cos(a w_0), sin(a w_1), ...]` with
`a = 2 pi (p + 1) / (side + 1e-6)` for the row in one half of the channels, and for the
column in the other. The side is one more than the largest id of the image on that axis,
and frequencies are `base ** (-4 m / d)`.
Source: Carion et al. 2020, arXiv:2005.12872 (DETR). The authors' code
(PositionEmbeddingSine with normalize=True) and transformers' port (detr) were read, the
paper was not.
Layout: rows first; sines and cosines interleaved.
Differs: DETR adds the vectors to the inputs of queries and keys in every layer; here
they are added once, to the token embeddings.
Axes: ids are (row, column) and begin at 0.
"""

import math

import torch
from torch import Tensor

from posenc_compare.errors import ShapeError
from posenc_compare.schemes.scheme import Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.blocks import image_sides
from posenc_compare.schemes.shared.frequencies import inverse_frequencies

EPSILON = 1e-6
FAULT = "coordinates span the whole image, so cells beyond a part of it count"


@register(
    "sinusoidal_detr",
    family="absolute",
    source="Carion et al. 2020, arXiv:2005.12872",
    axes=2,
    identities="codes span an image of any sides",
    oracles="transformers 4e-7",
    checked="authors' code and transformers, paper not opened",
)
class SinusoidalDetr(Scheme):
    """Add sines and cosines of the place in sides of the image. Has no parameters.

    Args:
        geometry: `length`; the width d is that of the tokens, a multiple of 4.
        base: over the image, the fastest sinusoid makes one turn, and the slowest
            `base ** (4 / d - 1)` turns.
        height: rows of the trained image; 0 means the smallest square that holds
            `length`.
        width: its columns; 0 likewise.
    """

    facts = Facts(known_faults=dict.fromkeys(("C18", "C19", "C21"), FAULT))

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        height: int = 0,
        width: int = 0,
    ) -> None:
        super().__init__(geometry)
        self.base = base
        self.sides = image_sides("sinusoidal_detr", geometry, height, width)

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the place of each cell in the trained image, float64."""
        if not positions.numel():
            return positions.double()
        sides = positions.amax(dim=-2, keepdim=True).double() + 1 + EPSILON
        return (positions + 1) * self._extent(positions) / sides - 1

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = x.shape[-1]
        if width % 4:
            raise ShapeError(
                f"sinusoidal_detr: the width must be divisible by 4, got {width}"
            )
        turns = (positions.double() + 1) / self._extent(positions)
        speeds = inverse_frequencies(width // 4, self.base, positions.device)
        angle = 2 * math.pi * turns[..., None] * speeds  # (..., seq, axis, pair)
        code = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-3)
        return x + code.to(x.dtype)

    def _extent(self, positions: Tensor) -> Tensor:
        """Return the sides of the trained image, `(axis,)` float64."""
        return positions.new_tensor(self.sides).double() + EPSILON
