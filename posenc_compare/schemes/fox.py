"""Forgetting attention (FoX).

Every token carries a gate between 0 and 1 per head, and the weight of a key is
multiplied by the gates of all tokens after it up to the query: ALiBi with a slope that
the text decides.

Formula: `bias[h, i, j]` is the sum of `log gate_h(t)` over `t = j + 1 ... i`.
Source: Lin et al. 2025, arXiv:2503.02130; initial values from the authors' released
code (modeling_forgetting_transformer.py), which starts all gates near 1/2. Others
start them nearly open: x-transformers with a bias of 5.
Direction: a key's own gate does not count, so a token sees itself undiminished.
Scale: the logarithm of the gates is not divided by sqrt(head_dim).
Only the order of the tokens is used, no position ids. CABLE (Veisi et al. 2025,
arXiv:2503.08067) has the same bias in its authors' code, with the layer's sign turned.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    register,
)
from posenc_compare.schemes.shared.layers import apply_wide


@register(
    "fox",
    family="contextual",
    source="Lin et al. 2025, arXiv:2503.02130",
    identities="equals `nope` with open gates, and `alibi` with constant gates",
    oracles="x-transformers 9e-8",
    checked="paper, authors' code",
)
class Fox(Scheme):
    """Forget a key by the product of the gates between it and the query.

    `(model_dim + 1) * heads` parameters.

    Args:
        geometry: `model_dim` channels make `heads` gates.
        bias: initial bias of the gates, before the sigmoid.
        std: standard deviation of their initial weights.
    """

    facts = Facts(per_layer=True, by_order=True, causal_only=True)

    def __init__(
        self, geometry: Geometry, *, bias: float = 0.0, std: float = 0.02
    ) -> None:
        super().__init__(geometry)
        if not math.isfinite(bias):
            raise ConfigError(f"fox: bias must be a finite number, got {bias}")
        if not 0 <= std < math.inf:
            raise ConfigError(f"fox: std must be 0 or more, got {std}")
        self.gate = nn.Linear(geometry.model_dim, geometry.heads)
        nn.init.normal_(self.gate.weight, std=std)
        nn.init.constant_(self.gate.bias, bias)

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """Return the sum of the logarithms of all gates so far, `(batch, key, head)`.

        In float64: what is used are differences of sums that grow with the text.
        """
        gates = F.logsigmoid(apply_wide(self.gate, x).double())
        total = gates.cumsum(dim=1)
        if past is None:
            return total
        before = past[:, -1:].sum(dim=1, keepdim=True)  # 0 if no key is past
        return torch.cat([past, before + total], dim=1)

    def pair_bias(self, call: Call) -> PairBias:
        if call.state is None:
            raise ConfigError("fox: needs the state that token_state returns, got none")
        # Two tensors: the fused kernel learns through one index of each.
        here, there = call.state[:, call.past :].clone(), call.state
        return lambda b, h, i, j: here[b, i, h] - there[b, j, h]
