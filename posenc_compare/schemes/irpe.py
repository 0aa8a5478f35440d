"""iRPE: relative position encoding for images.

Adds to each logit the product of the query with a trained vector, looked up by the
signed offset of the two patches. Short offsets have a row of their own. Longer offsets
share rows on a logarithmic scale, and all beyond a limit share the last row.

Formula: `bias[h, i, j] = q_i . r[g(i_r - j_r), g(i_c - j_c)] / sqrt(head_dim)`, where
`g(x) = round(x)` up to alpha, and otherwise `sign(x) * min(beta, round(y))` with
`y = alpha + (beta - alpha) * ln(|x| / alpha) / ln(gamma / alpha)`.
Source: Wu et al. 2021, arXiv:2107.14222, section 3.2, equations 13 to 25; ratios, start
and scale as in the authors' code (microsoft/Cream, iRPE/DeiT-with-iRPE/irpe.py).
Methods: product has a row for each pair of indices. Cross has rows for g(i_r - j_r) and
others for g(i_c - j_c), and adds both. Euclidean reads `r[g(round(|i - j|))]`. The
paper's fourth, quantization, is left out: paper and code define it differently.
Mode: contextual as above; bias has a number in place of the product. The paper divides
this number by sqrt(head_dim), too; the code and this scheme do not.
Sign: query minus key. Positions are (row, column).
Rows: added to keys alone, which is the paper's default. Rows for queries, for values
and for the class token are left out. Heads share rows, as in the paper's final models;
with `per_head` they do not.
Ratio: alpha, beta and gamma are 1, 2 and 8 times the ratio, in positions; the last
index is beta, rounded down. For images of 14 x 14 patches, the released models have a
ratio of 1.9 with product, and 20 with the other methods.
Start: zeros.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    WholeBias,
    gather_bias,
    register,
)


def piecewise(x: Tensor, ratio: float) -> Tensor:
    """Return the index of every offset or distance, from -int(2 ratio), int64."""
    away = x.abs().double()
    far = ratio * (1 + (away / ratio).clamp(min=1).log() / math.log(8))
    index = torch.where(away <= ratio, away, far).round().clamp(max=int(2 * ratio))
    return (x.sign() * index).long()


@register(
    "irpe",
    family="contextual",
    source="Wu et al. 2021, arXiv:2107.14222",
    axes=2,
    identities="starts as `nope`; on 14 x 14 patches as many parameters as in the "
    "paper",
    checked="paper, authors' code",
)
class Irpe(Scheme):
    """Add products of the query with a vector per offset of two axes, in buckets.

    `49 * head_dim` parameters by default; product has `(2 * int(2 * ratio) + 1) ** 2`
    rows.

    Args:
        geometry: `head_dim` channels of a vector.
        method: how the two offsets select a row; see the header.
        mode: `contextual` multiplies the query by the row; with `bias`, each row is a
            single number.
        ratio: offset up to which the index is the offset itself, in positions. 0 means
            1.9 with product, and 20 otherwise.
        per_head: give every head its own rows.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        method: Literal["product", "cross", "euclidean"] = "product",
        mode: Literal["contextual", "bias"] = "contextual",
        ratio: float = 0.0,
        per_head: bool = False,
    ) -> None:
        super().__init__(geometry)
        if ratio and ratio < 0.5:
            raise ConfigError(
                f"irpe: ratio must be at least 0.5, or 0 for the default, got {ratio}"
            )
        self.method, self.mode = method, mode
        self.ratio = ratio or (1.9 if method == "product" else 20.0)
        self.beta = int(2 * self.ratio)
        side = 2 * self.beta + 1
        rows = {"product": side**2, "cross": side, "euclidean": self.beta + 1}[method]
        width = geometry.head_dim if mode == "contextual" else 1
        shape = (geometry.heads if per_head else 1, rows, width)
        self.tables = nn.ParameterList(
            torch.zeros(shape) for _ in range(2 if method == "cross" else 1)
        )

    def pair_bias(self, call: Call) -> PairBias:
        what = f"rows of {self.method} {self.ratio}"
        places = call.once(Irpe, what, call.q_positions, lambda: self._places(call))
        found = [
            gather_bias(self._numbers(call.q, table), place)
            for table, place in zip(self.tables, places, strict=True)
        ]
        if len(found) == 1:
            return found[0]
        one, other = found
        return WholeBias(
            lambda b, h, i, j: one(b, h, i, j) + other(b, h, i, j),
            lambda: one.whole() + other.whole(),
        )

    def _places(self, call: Call) -> list[Tensor]:
        """Return the row of every pair in each table, `(batch or 1, query, key)`."""
        away = call.q_positions[:, :, None] - call.k_positions[:, None]
        if self.method == "euclidean":
            return [piecewise(away.double().norm(dim=-1).round(), self.ratio)]
        down, across = (piecewise(away, self.ratio) + self.beta).unbind(dim=-1)
        if self.method == "cross":
            return [down, across]
        return [down * (2 * self.beta + 1) + across]

    def _numbers(self, q: Tensor, table: Tensor) -> Tensor:
        """Return what each row adds, `(batch, heads, query, row)`."""
        wide = torch.promote_types(q.dtype, torch.float32)
        table = table.to(wide).mT  # (heads or 1, width, row)
        if self.mode == "bias":
            return table.expand(*q.shape[:3], -1)
        return q.to(wide) @ table * self.scale(q.shape[-1])
