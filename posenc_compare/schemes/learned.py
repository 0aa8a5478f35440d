"""Learned absolute positions.

Adds one trained vector per position, read from a table.

Formula: `x_p + table[p]`.
Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5 (as the alternative to
sinusoids); Devlin et al. 2018, arXiv:1810.04805, section 3.
Convention: positions past the table are an error, never wrapped or clamped.
"""

import math

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, check_positions, register


@register(
    "learned",
    family="absolute",
    source="Devlin et al. 2018, arXiv:1810.04805",
    checked="papers",
)
class Learned(Scheme):
    """Add a trained vector per position. `length * model_dim` parameters.

    Args:
        geometry: `length` rows of `model_dim` channels.
        length: rows of the table; 0 means the geometry's length.
        std: standard deviation of the initial table; BERT takes 0.02, GPT-2 0.01.
    """

    def __init__(
        self, geometry: Geometry, *, length: int = 0, std: float = 0.02
    ) -> None:
        super().__init__(geometry)
        if length < 0:
            raise ConfigError(f"learned: length must be at least 1, got {length}")
        if not 0 <= std < math.inf:
            raise ConfigError(f"learned: std must be 0 or more, got {std}")
        self.table = nn.Parameter(
            torch.randn(length or geometry.length, geometry.model_dim) * std
        )

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        rows, width = self.table.shape
        if x.shape[-1] != width:
            raise ShapeError(
                f"learned: the width must be {width}, as the table's, got {x.shape[-1]}"
            )
        check_positions(self.name, positions, rows)
        return x + self.table[positions].to(x.dtype)
