"""Learned absolute positions of rows and columns.

Adds a trained vector of the column to one half of the channels, and a trained vector of
the row to the other half.

Formula: `x_p + [columns[c], rows[r]]`, side by side.
Source: Carion et al. 2020, arXiv:2005.12872 (DETR). The authors' code
(PositionEmbeddingLearned) and transformers' port (detr) were read, the paper was not.
Layout: the column's half comes first.
Start: uniform from 0 to 1, as in the authors' implementation, so all vectors share a
positive mean.
Differs: DETR adds the vectors to the inputs of queries and keys in every layer; here
they are added once, to the token embeddings. DETR's tables have 50 vectors each; here
they have one for each column or row of the trained image.
Axes: ids are (row, column). Cells past the tables are an error.
"""

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, check_positions, register
from posenc_compare.schemes.shared.blocks import image_sides


@register(
    "learned_axes",
    family="absolute",
    source="Carion et al. 2020, arXiv:2005.12872",
    axes=2,
    oracles="transformers 0",
    checked="authors' code and transformers, paper not opened",
)
class LearnedAxes(Scheme):
    """Add trained vectors of column and row, a half of the channels each.

    `(height + width) * model_dim / 2` parameters.

    Args:
        geometry: `model_dim` channels, an even number.
        height: rows that have a vector; 0 means those of the smallest square that holds
            `length`.
        width: columns that have one; 0 likewise.
    """

    def __init__(self, geometry: Geometry, *, height: int = 0, width: int = 0) -> None:
        super().__init__(geometry)
        if geometry.model_dim % 2:
            raise ConfigError(
                f"learned_axes: model_dim must be even, got {geometry.model_dim}; "
                f"{geometry.model_dim + 1} would work"
            )
        self.rows, self.columns = (
            nn.Parameter(torch.rand(side, geometry.model_dim // 2))
            for side in image_sides("learned_axes", geometry, height, width)
        )

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = 2 * self.rows.shape[-1]
        if x.shape[-1] != width:
            raise ShapeError(
                f"learned_axes: the width must be {width}, as that of both tables, got "
                f"{x.shape[-1]}"
            )
        row, column = positions.unbind(-1)
        for ids, table in ((row, self.rows), (column, self.columns)):
            check_positions(self.name, ids, len(table))
        code = torch.cat([self.columns[column], self.rows[row]], dim=-1)
        return x + code.to(x.dtype)
