"""Additive GRAPE with a gate on the slope (GRAPE-A).

Subtracts from each logit a multiple of the distance, as ALiBi does, where query or key
decide how steep the slope is.

Formula: `bias[h, i, j] = -|i - j| m_h softplus(o_h) softplus(u_h x / sqrt(d))`; x is
the query i or the key j, u_h of unit length, m the slopes of ALiBi.
Source: Zhang et al. 2025, arXiv:2512.07805; the authors' released code has one network
for each gate, and one with both, which is left out.
Start: `softplus(o)` is 1, and u is drawn from N(0, 1/d).
Direction: the code knows the past only; here the distance is |query - key|.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    register,
)
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.transfer import to_device


@register(
    "grape_a",
    family="contextual",
    source="Zhang et al. 2025, arXiv:2512.07805",
    real=True,
    identities="equals `alibi` with another slope if the directions are 0",
    checked="authors' code, paper not opened; the form with both gates is left out",
)
class GrapeA(Scheme):
    """Subtract the distance times a slope that the query or the key sets.

    `(head_dim + 1) * heads` parameters.

    Args:
        geometry: `heads` directions of `head_dim` channels.
        gate: which of the two sets the slope.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self, geometry: Geometry, *, gate: Literal["query", "key"] = "query"
    ) -> None:
        super().__init__(geometry)
        self.by_query = gate == "query"
        heads, width = geometry.heads, geometry.head_dim
        self.slopes = slopes(heads)
        start = math.log(math.expm1(1.0))  # softplus of it is 1
        self.steepness = nn.Parameter(torch.full((heads,), start))
        self.direction = nn.Parameter(torch.randn(heads, width) * width**-0.5)

    def pair_bias(self, call: Call) -> PairBias:
        x = call.q if self.by_query else call.k
        wide = torch.promote_types(x.dtype, torch.float32)
        unit = F.normalize(self.direction.to(wide), dim=-1, eps=1e-6)
        along = (x.to(wide) * unit[:, None]).sum(dim=-1) * x.shape[-1] ** -0.5
        slope = to_device(torch.tensor(self.slopes, dtype=wide), x.device)
        gate = (
            F.softplus(along) * (F.softplus(self.steepness.to(wide)) * slope)[:, None]
        )
        batch, by_query = call.q.shape[0], self.by_query
        here, there = (
            p.expand(batch, -1) for p in (call.q_positions, call.k_positions)
        )

        def bias(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance = (here[b, i] - there[b, j]).abs()
            return -distance * gate[b, h, i if by_query else j]

        return bias
