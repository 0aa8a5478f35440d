"""Contextual position encoding (CoPE).

The distance to a key is a sum of gates: each token from the key to the query adds a
number between 0 and 1, computed from the query and that token. The query is multiplied
by one trained vector for each whole distance, and the products are interpolated.

Formula: logit + `q_i e(place)`, `place = sum of sigmoid(logit(i, t)), t = j ... i`.
Source: Golovneva et al. 2024, arXiv:2405.18719; gates, clamping, initial values and
the default number of positions from the authors' released code (RAM, projects/cope).
Direction: the token itself counts, so the nearest key is at its own gate, not at 0.
Scale: the paper adds the products of query and vectors as they are; the released code
divides them by sqrt(head_dim) unless told not to (`scaled`).
Only the order of the tokens is used, no position ids.
"""

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Facts, Geometry, Scheme, register


@register(
    "cope",
    family="contextual",
    source="Golovneva et al. 2024, arXiv:2405.18719",
    identities="starts as `nope`",
    oracles="x-transformers 7e-8",
    checked="paper, authors' code; they differ, see `scaled`",
)
class Cope(Scheme):
    """Look up a trained vector at the number of gates open from key to query.

    `limit * head_dim` parameters, shared by the heads.

    Args:
        geometry: `head_dim` is the width of a vector.
        limit: number of vectors; distances stop at the last. 0 means one more than
            the geometry's length.
        scaled: divide the products of query and vectors by sqrt(head_dim).
    """

    facts = Facts(per_layer=True, by_order=True, causal_only=True)

    def __init__(
        self, geometry: Geometry, *, limit: int = 0, scaled: bool = False
    ) -> None:
        super().__init__(geometry)
        if limit < 0:
            raise ConfigError(f"cope: limit must be at least 1, got {limit}")
        self.scaled = scaled
        rows = limit or geometry.length + 1
        self.table = nn.Parameter(torch.zeros(rows, geometry.head_dim))

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        gates = logits.sigmoid() * call.keep()  # nothing masked is counted
        place = gates.flip(-1).cumsum(-1).flip(-1)
        last = len(self.table) - 1
        if place.shape[-1] > last:  # or so few gates reach no further
            place = place.clamp(max=last)
        products = call.q.to(logits.dtype) @ self.table.to(logits.dtype).T
        if self.scaled:
            products = products * call.q.shape[-1] ** -0.5
        low = products.gather(-1, place.floor().long())
        high = products.gather(-1, place.ceil().long())
        return logits + low.lerp(high, place.frac())
