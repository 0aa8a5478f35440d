"""Efficient relative position encoding (eRPE).

Adds to each attention weight, after the softmax, a trained number per offset and head.
So a head reads a fixed mixture of its neighbours beside what it attends to.

Formula: `w_ij = softmax_j(q_i k_j / sqrt(d)) + table[i - j, h]` for keys that the mask
shows.
Source: Foumani et al. 2023, arXiv:2305.16642, from the authors' released code
(Navidfoumani/ConvTran, Models/Attention.py, Attention_Rel_Scl, and the readme, which
calls it equation 14); of the paper, no more was read.
Sign: query minus key. A distance of `length` or more is an error.
Sum: the weights of a query need not sum to 1, and may be negative.
Scale: the code divides products by the root of model_dim, here by that of head_dim.
Mask: the code has none; here hidden keys get nothing.
Start: zeros, as released. The network there also adds `tape` to tokens, and normalises
the output of attention.
"""

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    Scheme,
    assert_in_graph,
    register,
)


@register(
    "erpe",
    family="contextual",
    source="Foumani et al. 2023, arXiv:2305.16642",
    identities="starts as `nope`; outputs depend on differences of positions",
    checked="authors' code, paper not opened",
)
class Erpe(Scheme):
    """Add a trained number per offset and head after the softmax.

    `(2 length - 1) * heads` parameters.

    Args:
        geometry: `heads` sets the columns of the table.
        length: all distances must be below it; 0 means the geometry's length.
    """

    facts = Facts(
        per_layer=True,
        known_faults={"C21": "logits have no position; it is added after the softmax"},
    )

    def __init__(self, geometry: Geometry, *, length: int = 0) -> None:
        super().__init__(geometry)
        if length < 0:
            raise ConfigError(f"erpe: length must be at least 1, got {length}")
        self.length = length or geometry.length
        self.table = nn.Parameter(torch.zeros(2 * self.length - 1, geometry.heads))

    def weights(self, logits: Tensor, call: Call) -> Tensor:
        seen = call.keep()  # (batch or 1, 1, query, key)
        offsets = call.q_positions[:, None, :, None] - call.k_positions[:, None, None]
        offsets = torch.where(seen, offsets, 0)
        self._check(offsets)
        rows = (offsets + self.length - 1).squeeze(1)
        added = self.table.to(logits.dtype)[rows].movedim(-1, 1)
        return logits.softmax(dim=-1) + added * seen

    def _check(self, offsets: Tensor) -> None:
        limit, distances = self.length, offsets.abs()
        if assert_in_graph(
            distances < limit, "erpe: distances must be below the length"
        ):
            return
        farthest = int(distances.max()) if distances.numel() else 0
        if farthest >= limit:
            advice = f"`length={farthest + 1}`"
            raise UndefinedPositionError(
                self.name, limit, farthest, "distances", advice
            )
