"""Data-adaptive positional encoding (DAPE).

A small network looks at the logits and at the biases of all heads for a pair of
tokens, and corrects the biases by what it sees.

Formula: logits `A + B + f(A, B)` of products A and biases B.
Source: Zheng et al. 2024, arXiv:2405.14722; width, LeakyReLU and initial values
(torch's defaults) from the authors' released code (DAPE.py).
Layout: the network reads the logits of all heads, then the biases of all heads.
Layers: each has a network and a base of its own, and so parameters of a base such as
T5's are not shared between layers.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    HOOKS,
    Call,
    Facts,
    Geometry,
    Scheme,
    all_pairs,
    check_axes,
    register,
)
from posenc_compare.schemes.shared.distinct import distinct
from posenc_compare.schemes.shared.layers import apply_wide
from posenc_compare.variants import Variant

ROWS = 256  # queries that the network serves at once, which bounds its memory


@register(
    "dape",
    family="contextual",
    source="Zheng et al. 2024, arXiv:2405.14722",
    real=True,
    identities="equals its base scheme if the network outputs 0",
    checked="paper, authors' code",
)
class Dape(Scheme):
    """Correct another scheme's bias by a network of the logits of all heads.

    `(2 * heads + 1) * width + (width + 1) * heads` parameters, and the base's.

    Args:
        geometry: `heads` inputs of each kind and as many outputs.
        base: the scheme whose bias is corrected.
        width: hidden channels of the network.
    """

    facts = Facts(per_layer=True, mixes_heads=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: Variant = Variant("alibi"),
        width: int = 32,
    ) -> None:
        super().__init__(geometry)
        if width < 1:
            raise ConfigError(f"dape: width must be at least 1, got {width}")
        self.base: Scheme = base.build(geometry)
        check_axes(self.base)
        doors = {door for door in HOOKS if self.base.acts_at(door)} - {"scale"}
        if not doors or doors - {"offset_bias", "pair_bias"}:
            raise ConfigError(
                f"dape: base must be a scheme that adds a bias and nothing else, "
                f"got {base.label!r}"
            )
        self.facts = replace(self.base.facts, per_layer=True, mixes_heads=True)
        self.hidden = nn.Linear(2 * geometry.heads, width)
        self.out = nn.Linear(width, geometry.heads)

    def scale(self, head_dim: int) -> float:
        return self.base.scale(head_dim)

    def query_init_gain(self, head_dim: int) -> float:
        return self.base.query_init_gain(head_dim)

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        bias = self.base_bias(call).to(logits.dtype).expand_as(logits)
        both = rearrange([logits, bias], "two b head q k -> b q k (two head)")
        parts = [self.correction(part) for part in both.split(ROWS, dim=1)]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        correction = rearrange(whole, "b q k head -> b head q k")
        return logits + bias + correction.to(logits.dtype)

    def correction(self, both: Tensor) -> Tensor:
        """Return the network's output `(..., head)` for `(..., logits and biases)`."""
        hidden = F.leaky_relu_(apply_wide(self.hidden, both))
        return apply_wide(self.out, hidden)

    def base_bias(self, call: Call) -> Tensor:
        """Return the bias of the base, `(batch or 1, heads, query, key)`."""
        offsets = call.k_positions[:, None, :] - call.q_positions[:, :, None]
        steps, place = distinct(offsets)
        vector, pair = self.base.offset_bias(steps), self.base.pair_bias(call)
        bias = call.q.new_zeros(1, 1, 1, 1)
        if vector is not None:
            bias = rearrange(vector[:, place], "head b q k -> b head q k")
        if pair is not None:
            bias = bias + all_pairs(pair, call)
        return bias
