"""Swin's relative position bias.

Adds to each logit a trained number per head, looked up by how many rows and columns
lie between the two places of a window.

Formula: `bias[h, i, j] = table[rows_i - rows_j, columns_i - columns_j, h]`.
Source: Liu et al. 2021, arXiv:2103.14030 (Swin Transformer); index and start follow
the released code (microsoft/Swin-Transformer, models/swin_transformer.py).
Sign: query minus key. Positions are (row, column); only their differences count, and
one as large as the window is an error.
Start: normal, cut off, with standard deviation 0.02 as released and in timm; zeros in
transformers.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    assert_in_graph,
    register,
)
from posenc_compare.transfer import to_device


@register(
    "swin",
    family="bias",
    source="Liu et al. 2021, arXiv:2103.14030",
    axes=2,
    identities="the default window is the smallest square that holds the length",
    oracles="transformers 0",
    checked="authors' code",
)
class Swin(Scheme):
    """Add a trained number per offset of two axes and head.

    `(2 height - 1) * (2 width - 1) * heads` parameters.

    Args:
        geometry: `heads` sets the columns of the table.
        height: rows of the window; 0 means the smallest square that holds `length`.
        width: columns of the window; 0 likewise.
        start: how the table begins.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        height: int = 0,
        width: int = 0,
        start: Literal["normal", "zeros"] = "normal",
    ) -> None:
        super().__init__(geometry)
        for name, value in (("height", height), ("width", width)):
            if value < 0:
                raise ConfigError(f"swin: {name} must be at least 1, got {value}")
        side = math.isqrt(geometry.length - 1) + 1
        self.height, self.width = height or side, width or side
        rows = (2 * self.height - 1) * (2 * self.width - 1)
        self.table = nn.Parameter(torch.zeros(rows, geometry.heads))
        if start == "normal":
            nn.init.trunc_normal_(self.table, std=0.02)

    def pair_bias(self, call: Call) -> PairBias:
        batch, stride = call.q.shape[0], 2 * self.width - 1
        self._check(call.q_positions, call.k_positions)
        # A row of the table for every pair is the difference of one number each.
        step = to_device(torch.tensor([stride, 1]), call.q.device)
        start = (self.height - 1) * stride + self.width - 1
        q_rows = (call.q_positions * step).sum(-1).expand(batch, -1) + start
        k_rows = (call.k_positions * step).sum(-1).expand(batch, -1)
        return lambda b, h, i, j: self.table[q_rows[b, i] - k_rows[b, j], h]

    def _check(self, q_positions: Tensor, k_positions: Tensor) -> None:
        q_low, q_high = q_positions.aminmax(dim=1)  # (batch or 1, axis)
        k_low, k_high = k_positions.aminmax(dim=1)
        distances = torch.maximum(q_high - k_low, k_high - q_low).amax(dim=0)
        window = distances.new_tensor([self.height, self.width])
        if assert_in_graph(
            distances < window, "swin: cells must lie within one window"
        ):
            return
        sides = ("rows", "height", self.height), ("columns", "width", self.width)
        for (what, option, limit), got in zip(sides, distances.tolist(), strict=True):
            if got >= limit:
                between = f"{what} between two cells"
                advice = f"`{option}={got + 1}`"
                raise UndefinedPositionError(self.name, limit, got, between, advice)
