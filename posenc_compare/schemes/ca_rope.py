"""Context-aware rotary positions (CARoPE).

Every token contributes a number between 0 and 1 per head. Raised to the index of a
channel pair, it is the angle by which all later tokens are rotated further.

Formula: pair m of head h at token t rotates by `sum f_h(x_u) ** m` over `u <= t`, with
`f(x) = 1 / (1 + softplus(x W + c))`.
Source: Veisi et al. 2025, arXiv:2507.23083, section 2, from a copy of the text; no code
was found.
Start: the paper writes no c, and says that RoPE is where training begins, which no W
gives alone. So W starts at 0, and c is trained from where f is the ratio of RoPE's
frequencies (`start=rope`); without c (`start=half`) f is 0.59 at first.
Pairs count from 0, as RoPE's do; then the first turns by one radian a token, whatever
the tokens say.
Convention: only the order of the tokens is used, no position ids.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.layers import apply_wide
from posenc_compare.schemes.shared.rotation import (
    Layout,
    pair_count,
    rotate,
    rotation_table,
)


@register(
    "ca_rope",
    family="contextual",
    source="Veisi et al. 2025, arXiv:2507.23083",
    identities="starts as `rope`",
    checked="paper (a copy of its text); no code was found; unverified: the start",
)
class CaRope(Scheme):
    """Rotate queries and keys by phases that accumulate over the tokens so far.

    `(model_dim + 1) * heads` parameters.

    Args:
        geometry: `head_dim` channels are rotated; `model_dim` make `heads` numbers.
        base: of RoPE, where training starts; greater than 1.
        layout: which two channels make a pair; `half` pairs channel i with i + d/2,
            adjacent the channels (0, 1), (2, 3), ...
        start: rope, at its frequencies and with c; half, without c.
    """

    facts = Facts(per_layer=True, by_order=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        start: Literal["rope", "half"] = "rope",
    ) -> None:
        super().__init__(geometry)
        if not base > 1:
            raise ConfigError(f"ca_rope: base must be greater than 1, got {base}")
        self.layout: Layout = layout
        self.pairs = pair_count("ca_rope", geometry.head_dim)
        self.say = nn.Linear(geometry.model_dim, geometry.heads, bias=start == "rope")
        nn.init.zeros_(self.say.weight)
        if start == "rope":
            slower = base ** (1 / self.pairs) - 1  # 1 / f - 1, where f is RoPE's ratio
            # Where softplus gives that; expm1 would overflow for large ones.
            nn.init.constant_(self.say.bias, slower + math.log(-math.expm1(-slower)))

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """Return f of every token, `(batch, key, head)`, in (0, 1)."""
        made = 1 / (1 + F.softplus(apply_wide(self.say, x)))
        return made if past is None else torch.cat([past, made], dim=1)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._rotated(q, call, of_queries=True)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._rotated(k, call, of_queries=False)

    def angles(self, state: Tensor) -> Tensor:
        """Return the angle of every pair at every key, `(batch, head, key, pair)`."""
        said = rearrange(state.double(), "b key head -> b head key 1")
        powers = torch.arange(self.pairs, device=state.device)
        return (said**powers).cumsum(dim=-2)

    def _rotated(self, x: Tensor, call: Call | None, *, of_queries: bool) -> Tensor:
        if call is None or call.state is None:
            raise ConfigError(
                "ca_rope: needs the state that token_state returns, got none"
            )
        state = call.state

        def made() -> Tensor:
            angles = self.angles(state)
            return torch.polar(torch.ones_like(angles), angles)

        # The state is what angles depend on; every layer and every pass has its own.
        phasors = call.once(self, "angles", state, made)
        if of_queries:
            phasors = phasors[..., call.past : call.past + x.shape[-2], :]
        return rotate(x, rotation_table(phasors, x.dtype, self.layout), self.layout)
