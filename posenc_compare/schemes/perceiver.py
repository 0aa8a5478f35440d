"""Fourier features of the place in an image, beside the token (Perceiver).

Puts sines and cosines of row and column, at evenly spaced frequencies, next to the
token vector, with both coordinates themselves. A trained layer brings all back to the
model's width. A larger image has the same features, more finely.

Formula: `V x_p + W [c, sin(pi f c), cos(pi f c)]` with `c = 2 p / (side - 1) - 1` on
each axis. The side is one more than the largest id of the image on that axis. The
frequencies f run evenly from 1 to half of the trained side.
Source: Jaegle et al. 2021, arXiv:2103.03206; from the authors' code
(perceiver/position_encoding.py) and transformers' port (perceiver). Of the paper, only
the paragraph on these features was read, as quoted by others.
Layout: both coordinates, then all sines, then all cosines, rows before columns.
Differs: Perceiver leaves the features beside the input, or projects them alone. Here
one layer without bias projects both, as in `sinusoidal_concat`, and V and W are its two
parts. V starts as the identity, and W with entries from N(0, 1 / features).
Axes: ids are (row, column) and begin at 0. The only cell of an axis lies at -1.
"""

import math

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.blocks import image_sides
from posenc_compare.schemes.shared.image import coordinates, rescale_positions
from posenc_compare.schemes.shared.layers import apply_wide

EDGE = 0.0
FAULT = "coordinates span the whole image, so cells beyond a part of it count"


@register(
    "perceiver",
    family="absolute",
    source="Jaegle et al. 2021, arXiv:2103.03206",
    axes=2,
    identities="features span an image of any sides",
    oracles="transformers 3e-7",
    checked="authors' code and transformers, and one quoted paragraph of the paper",
)
class Perceiver(Scheme):
    """Project token and Fourier features, side by side, to the model's width.

    `model_dim * (model_dim + 4 * bands + 2)` parameters.

    Args:
        geometry: `model_dim` channels of the token.
        bands: frequencies of each axis.
        height: rows of the trained image; 0 means the smallest square that holds
            `length`.
        width: its columns; 0 likewise.
    """

    facts = Facts(known_faults=dict.fromkeys(("C18", "C19", "C21"), FAULT))

    def __init__(
        self,
        geometry: Geometry,
        *,
        bands: int = 64,
        height: int = 0,
        width: int = 0,
    ) -> None:
        super().__init__(geometry)
        if bands < 1:
            raise ConfigError(f"perceiver: bands must be at least 1, got {bands}")
        self.bands = bands
        self.sides = image_sides("perceiver", geometry, height, width)
        channels, features = geometry.model_dim, 4 * bands + 2
        self.from_token = nn.Linear(channels, channels, bias=False)
        self.from_place = nn.Linear(features, channels, bias=False)
        nn.init.eye_(self.from_token.weight)
        nn.init.normal_(self.from_place.weight, std=features**-0.5)

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the place of each cell in the trained image, float64."""
        return rescale_positions(positions, self.sides, EDGE)

    def draw(self, positions: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return the sides of the image, `(..., axis)`; packed images are refused.

        The first cell lies at -1 in all of them, so its place does not tell.
        """
        if not positions.numel():
            return positions.new_tensor(self.sides)
        return positions.amax(dim=-2) + 1

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = self.from_token.out_features
        if x.shape[-1] != width:
            raise ShapeError(
                f"perceiver: the width must be {width}, as the layer's, got "
                f"{x.shape[-1]}"
            )
        code = apply_wide(self.from_place, self._features(positions))
        return (apply_wide(self.from_token, x) + code).to(x.dtype)

    def _features(self, positions: Tensor) -> Tensor:
        """Return coordinates, sines and cosines, `(..., seq, feature)` float64."""
        place = coordinates(positions, self.sides, EDGE)
        speeds = torch.stack([self._speeds(side) for side in self.sides])
        angle = math.pi * place[..., None] * speeds.to(place.device)
        angle = angle.flatten(-2)  # (..., seq, axis * band)
        return torch.cat([place, angle.sin(), angle.cos()], dim=-1)

    def _speeds(self, side: int) -> Tensor:
        """Return the frequencies of an axis, in half turns, `(band,)` float64."""
        return torch.linspace(1, side / 2, self.bands, dtype=torch.float64)
