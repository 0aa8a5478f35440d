"""Rotations by trained generators (LieRE).

Multiplies blocks of query and key channels by the exponential of a sum of two trained
matrices, one scaled by the row and one by the column of an image patch. A block of two
channels is a pair of mixed 2-D RoPE; a larger block turns in more ways than one.

Formula: a block is multiplied by `R(p) = exp(y A + x B)`, where A and B are
skew-symmetric, `y = row / (height - 1)` and `x = column / (width - 1)`.
Source: Ostmeier et al. 2024, arXiv:2406.10322, from the authors' released code
(StanfordMIMI/LieRE, models/rope_vit.py, its configurations and scripts).
Not relative: A and B do not commute, so `R(p)^T R(q)` is not `R(q - p)`. They do with
a block of 2, which is mixed 2-D RoPE; the code's pairs turn the other way round.
Axes: ids are (row, column); both run from 0 to 1 over the image that is trained on.
Released, places of a larger image lie a little closer; here the spacing stays.
Block: the script for ImageNet has 8, as here; that for CIFAR-100 has 64, a whole head.
Released, channels that are left over are not turned; here none may be.
Start: the entries above the diagonal are uniform from 0 to 2 pi; the code draws and
keeps the others as well, without a use. It can share generators between heads or
layers, but all configurations train those of each head and layer.
"""

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.schemes.scheme import Facts, Geometry, register
from posenc_compare.schemes.shared.blocks import TurnedBlocks, image_sides


@register(
    "lie_re",
    family="rotary",
    source="Ostmeier et al. 2024, arXiv:2406.10322",
    axes=2,
    real=True,
    identities="equals `nope` with zero generators; larger blocks are not relative",
    checked="authors' code, and the abstract of the paper",
)
class LieRe(TurnedBlocks):
    """Rotate blocks of channels by row and column at once.

    `heads * head_dim * (block - 1)` parameters.

    Args:
        geometry: `head_dim` channels are turned.
        block: channels that turn together; 0 means the whole head.
        by: whether each head has generators of its own, or all share them.
        height: rows of the trained image; 0 means the smallest square that holds
            `length`.
        width: its columns; 0 likewise.
    """

    facts = Facts(per_layer=True, relative=False)

    def __init__(
        self,
        geometry: Geometry,
        *,
        block: int = 8,
        by: Literal["head", "layer"] = "head",
        height: int = 0,
        width: int = 0,
    ) -> None:
        sides = image_sides(self.name, geometry, height, width)
        span = (max(1, sides[0] - 1), max(1, sides[1] - 1))
        super().__init__(geometry, block or geometry.head_dim, span)
        self.facts = replace(self.facts, relative=self.block == 2)
        heads = geometry.heads if by == "head" else 1
        size = self.block * (self.block - 1) // 2
        drawn = torch.rand(2, heads, geometry.head_dim // self.block, size)
        self.entries = nn.Parameter(2 * math.pi * drawn)

    def generators(self) -> Tensor:
        entries, size = self.entries.double(), self.block
        above = entries.new_zeros(*entries.shape[:-1], size, size)
        row, column = torch.triu_indices(size, size, 1, device=entries.device)
        above[..., row, column] = entries
        return above - above.mT
