"""Learned absolute positions of an image, resized to images of other sizes.

Adds one trained vector for each cell of the trained grid. On another grid the table is
interpolated, so that it spans the whole image again.

Formula: `x_p + table(q)`, with `q = (p + 1/2) * trained / side - 1/2` on each axis. The
side is one more than the largest id of the image on that axis.
Source: Dosovitskiy et al. 2020, arXiv:2010.11929 (ViT), section 3.2. The resizing is
that of transformers' ViT (`interpolate_pos_encoding`: bicubic, corners not aligned),
which follows DINO; that code was read, the authors' was not.
Not done: timm also smooths a table that shrinks (antialiasing).
Axes: ids are (row, column) and begin at 0; the table has a row for each row and column.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError, UndefinedPositionError
from posenc_compare.schemes.scheme import (
    Facts,
    Geometry,
    Scheme,
    assert_in_graph,
    register,
)
from posenc_compare.schemes.shared.blocks import image_sides

FAULT = "the table spans the whole image, so cells beyond a part of it count"
SHARPNESS = -0.75  # of the cubic kernel, as in torch


@register(
    "learned_2d",
    family="absolute",
    source="Dosovitskiy et al. 2020, arXiv:2010.11929",
    axes=2,
    identities="on the trained grid the table is read as it is",
    oracles="transformers 3e-7",
    checked="transformers, paper not opened",
)
class Learned2d(Scheme):
    """Add a trained vector per cell, from a table that is resized to each image.

    `height * width * model_dim` parameters.

    Args:
        geometry: `model_dim` channels.
        resize: how the table is interpolated.
        height: rows of the table; 0 means the smallest square that holds `length`.
        width: its columns; 0 likewise.
        std: standard deviation of the initial table.
    """

    facts = Facts(known_faults=dict.fromkeys(("C18", "C19", "C21"), FAULT))

    def __init__(
        self,
        geometry: Geometry,
        *,
        resize: Literal["bicubic", "bilinear"] = "bicubic",
        height: int = 0,
        width: int = 0,
        std: float = 0.02,
    ) -> None:
        super().__init__(geometry)
        sides = image_sides("learned_2d", geometry, height, width)
        if not 0 <= std < math.inf:
            raise ConfigError(f"learned_2d: std must be 0 or more, got {std}")
        self.resize = resize
        self.table = nn.Parameter(torch.randn(*sides, geometry.model_dim) * std)

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the place of each cell in the table, float64."""
        if not positions.numel():
            return positions.double()
        own = positions.new_tensor(self.table.shape[:2]).double()
        sides = positions.amax(dim=-2, keepdim=True) + 1
        return (positions + 0.5) * own / sides - 0.5

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = self.table.shape[-1]
        if x.shape[-1] != width:
            raise ShapeError(
                f"learned_2d: the width must be {width}, as the table's, got "
                f"{x.shape[-1]}"
            )
        places = positions.double()
        self._check(places)
        reach = 2 if self.resize == "bicubic" else 1
        steps = torch.arange(1 - reach, 1 + reach, device=x.device)
        near = places.floor().unsqueeze(-1) + steps  # (..., seq, axis, neighbour)
        weights = _kernel(near - places.unsqueeze(-1), self.resize)
        rows, columns = (
            part.long().clamp(0, side - 1)
            for part, side in zip(near.unbind(-2), self.table.shape[:2], strict=True)
        )
        cells = self.table[rows.unsqueeze(-1), columns.unsqueeze(-2)].double()
        code = torch.einsum("...r,...c,...rcd->...d", *weights.unbind(-2), cells)
        return x + code.to(x.dtype)

    def _check(self, places: Tensor) -> None:
        """Refuse places that no resizing leads to."""
        sides = places.new_tensor(self.table.shape[:2])
        inside = (places >= -0.5) & (places <= sides - 0.5)
        if assert_in_graph(inside, "learned_2d: positions must be of one image"):
            return
        for axis, side in enumerate(self.table.shape[:2]):
            for place in places[..., axis][~inside[..., axis]].tolist():
                raise UndefinedPositionError(
                    self.name,
                    side,
                    math.floor(place),
                    advice="ids from 0 in a Session, which reads the image's size,",
                )


def _kernel(distance: Tensor, resize: str) -> Tensor:
    """Return the weight of a neighbour at a distance, in cells."""
    away = distance.abs()
    if resize == "bilinear":
        return (1 - away).clamp(min=0)
    a = SHARPNESS
    near = ((a + 2) * away - (a + 3)) * away.square() + 1
    far = a * (((away - 5) * away + 8) * away - 4)
    return torch.where(away < 1, near, torch.where(away < 2, far, 0.0))
