"""Fourier features of the place in an image, at random frequencies (SAM).

Adds sines and cosines of the place in the image, along random directions and at random
frequencies. A larger image samples the same range of codes more finely.

Formula: `x_p + [sin(2 pi c B), cos(2 pi c B)]` with `c = 2 (p + 1/2) / side - 1` on
each axis. The side is one more than the largest id of the image on that axis. B is
drawn from N(0, sigma ** 2).
Source: Kirillov et al. 2023, arXiv:2304.02643 (SAM), after Tancik et al. 2020,
arXiv:2006.10739. The authors' code (PositionEmbeddingRandom) and transformers' port
(sam) were read, the paper of SAM was not.
Layout: all sines before all cosines, unlike `fourier_random`.
Axes: ids are (row, column) and begin at 0. The first row of B multiplies the column.
Sigma: it is in turns over half of the image. The authors' code has 1, and the port has
half of the width of the image encoder; released weights replace both.
Differs: SAM adds the code to the image tokens and prompts of its decoder, in every
layer. Here it is added once, to the token embeddings. Frequencies are stored with the
parameters and never trained.
"""

import math

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.blocks import image_sides
from posenc_compare.schemes.shared.image import coordinates, rescale_positions

CENTRE = 0.5
FAULT = "coordinates span the whole image, so cells beyond a part of it count"


@register(
    "fourier_random_2d",
    family="absolute",
    source="Kirillov et al. 2023, arXiv:2304.02643",
    axes=2,
    identities="codes span an image of any sides",
    oracles="transformers 4e-7",
    checked="authors' code and transformers, paper not opened",
)
class FourierRandom2d(Scheme):
    """Add sines and cosines along fixed random directions. Nothing is trained.

    `model_dim` parameters, which are not trained.

    Args:
        geometry: `model_dim / 2` frequencies, each a vector of two components.
        sigma: standard deviation of the frequencies, in turns over half of the image.
        height: rows of the trained image; 0 means the smallest square that holds
            `length`.
        width: its columns; 0 likewise.
    """

    facts = Facts(known_faults=dict.fromkeys(("C18", "C19", "C21"), FAULT))

    def __init__(
        self,
        geometry: Geometry,
        *,
        sigma: float = 1.0,
        height: int = 0,
        width: int = 0,
    ) -> None:
        super().__init__(geometry)
        if geometry.model_dim % 2:
            raise ConfigError(
                f"fourier_random_2d: model_dim must be even, got {geometry.model_dim}; "
                f"{geometry.model_dim + 1} would work"
            )
        if not sigma > 0:
            raise ConfigError(
                f"fourier_random_2d: sigma must be greater than 0, got {sigma}"
            )
        self.sides = image_sides("fourier_random_2d", geometry, height, width)
        self.frequencies = nn.Parameter(
            torch.randn(2, geometry.model_dim // 2) * sigma, requires_grad=False
        )

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the place of each cell in the trained image, float64."""
        return rescale_positions(positions, self.sides, CENTRE)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = 2 * self.frequencies.shape[-1]
        if x.shape[-1] != width:
            raise ShapeError(
                f"fourier_random_2d: the width must be {width}, twice the frequencies, "
                f"got {x.shape[-1]}"
            )
        row, column = coordinates(positions, self.sides, CENTRE)[..., None].unbind(-2)
        across, down = self.frequencies.double()
        angle = 2 * math.pi * (column * across + row * down)  # (..., seq, pair)
        return x + torch.cat([angle.sin(), angle.cos()], dim=-1).to(x.dtype)
