"""Learned absolute positions, decomposed into two levels.

Adds a trained vector per position, as `learned` does. Beyond the table, each vector is
composed of two of its rows, so that a table of n rows serves n * n positions.

Formula: position `p = i n + j` adds `a u_i + (1 - a) u_j`, with
`u = (t - a t_0) / (1 - a)` for the rows t of a table of n rows. This equals
`t_j + a / (1 - a) * (t_i - t_0)`, the form that is computed.
Source: Su 2020, kexue.fm/archives/7947 (a post in Chinese; no paper), from the author's
released code (bert4keras, layers.py, PositionEmbedding with `hierarchical`) and a
summary of the post by another site.
Convention: the first n positions add the rows themselves, so training within the table
is that of `learned`. Positions from n * n are an error.
Alpha: 0.4 is the code's. At 1/2, positions i n + j and j n + i would coincide; the
post excludes this value, and so does this scheme.
Start: the code takes the table of a trained BERT; here it starts as that of `learned`.
"""

import math

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, check_positions, register


@register(
    "learned_hierarchical",
    family="absolute",
    source="Su 2020, kexue.fm/archives/7947",
    identities="is `learned` within the table; all `length ** 2` positions have codes "
    "of their own",
    checked="author's code, and another site's summary of his post",
)
class LearnedHierarchical(Scheme):
    """Add a trained vector per position; beyond the table, combine two of its rows.

    `length * model_dim` parameters.

    Args:
        geometry: `length` rows of `model_dim` channels.
        alpha: share of the coarse level; between 0 and 1, but not 1/2.
        length: rows of the table; 0 means the geometry's length.
        std: standard deviation of the initial table; BERT takes 0.02.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        alpha: float = 0.4,
        length: int = 0,
        std: float = 0.02,
    ) -> None:
        super().__init__(geometry)
        if not 0 < alpha < 1 or alpha == 0.5:
            raise ConfigError(
                f"learned_hierarchical: alpha must be between 0 and 1, and not 0.5, "
                f"got {alpha}; 0.4 would work"
            )
        if length < 0:
            raise ConfigError(
                f"learned_hierarchical: length must be at least 1, got {length}"
            )
        if not 0 <= std < math.inf:
            raise ConfigError(f"learned_hierarchical: std must be 0 or more, got {std}")
        self.ratio = alpha / (1 - alpha)
        self.table = nn.Parameter(
            torch.randn(length or geometry.length, geometry.model_dim) * std
        )

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        rows, width = self.table.shape
        if x.shape[-1] != width:
            raise ShapeError(
                f"learned_hierarchical: the width must be {width}, as the table's, "
                f"got {x.shape[-1]}"
            )
        check_positions(self.name, positions, rows * rows)
        table = self.table.to(torch.promote_types(self.table.dtype, torch.float32))
        coarse = self.ratio * (table - table[0])  # its first row adds nothing
        code = table[positions % rows] + coarse[positions // rows]
        return x + code.to(x.dtype)
