"""Learned absolute positions from two small tables (axial).

Positions are laid out in rows. Each adds the trained vector of its row to some of the
channels, and that of its column to the others.

Formula: `x_p + concat(A[p // columns], B[p % columns])`.
Source: Kitaev et al. 2020, arXiv:2001.04451 (Reformer), from the authors' released code
(google/trax, AxialPositionalEncoding) and transformers' Reformer
(AxialPositionEmbeddings), which agree. The documents of transformers exchange the two:
their first part has the columns.
Channels: the row has a quarter by default, as in transformers' default and for the
width 1024 in the authors' configuration of enwik8 (256 of 1024); other configurations
give it a third or a half.
Sides: by default the smallest square that holds the length, without unused rows. Both
implementations train on texts that fill all rows; here a text may be shorter.
Convention: positions from rows * columns are an error.
Start: standard deviation 1, as in both implementations.
Left out: dropout of the tables, and more than two axes.
"""

import math

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, check_positions, register


@register(
    "learned_axial",
    family="absolute",
    source="Kitaev et al. 2020, arXiv:2001.04451",
    identities="positions of a row share the first channels, those of a column the "
    "others",
    oracles="transformers 0",
    checked="authors' code and transformers, paper not opened",
)
class LearnedAxial(Scheme):
    """Add the trained vectors of a position's row and column, side by side.

    `rows * channels + columns * (model_dim - channels)` parameters.

    Args:
        geometry: `model_dim` channels, at least 2.
        rows: of the layout; 0 means as many as `length` needs.
        columns: positions in a row; 0 means as many as `length` needs, or without
            `rows` the side of the smallest square that holds it.
        channels: of the vector of a row; 0 means a quarter of `model_dim`.
        std: standard deviation of the initial tables.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        rows: int = 0,
        columns: int = 0,
        channels: int = 0,
        std: float = 1.0,
    ) -> None:
        super().__init__(geometry)
        for name, value in (("rows", rows), ("columns", columns)):
            if value < 0:
                raise ConfigError(
                    f"learned_axial: {name} must be at least 1, got {value}"
                )
        width, length = geometry.model_dim, geometry.length
        if width < 2:
            raise ConfigError(
                f"learned_axial: model_dim must be at least 2, got {width}"
            )
        channels = channels or max(1, width // 4)
        if not 0 < channels < width:
            raise ConfigError(
                f"learned_axial: channels must be from 1 to {width - 1}, got {channels}"
            )
        if not 0 <= std < math.inf:
            raise ConfigError(f"learned_axial: std must be 0 or more, got {std}")
        side = math.isqrt(length - 1) + 1
        columns = columns or (-(-length // rows) if rows else side)
        rows = rows or -(-length // columns)
        self.rows = nn.Parameter(torch.randn(rows, channels) * std)
        self.columns = nn.Parameter(torch.randn(columns, width - channels) * std)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        rows, columns = len(self.rows), len(self.columns)
        width = self.rows.shape[1] + self.columns.shape[1]
        if x.shape[-1] != width:
            raise ShapeError(
                f"learned_axial: the width must be {width}, as that of both tables, "
                f"got {x.shape[-1]}"
            )
        check_positions(self.name, positions, rows * columns)
        parts = self.rows[positions // columns], self.columns[positions % columns]
        return x + torch.cat(parts, dim=-1).to(x.dtype)
