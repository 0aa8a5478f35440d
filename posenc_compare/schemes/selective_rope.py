"""Selective RoPE: rotary angles that the text makes.

Every token turns all that follow it by angles of its own, so that a pair of channels
is rotated by the sum of what the tokens between key and query say.

Formula: pair m of head h at token t rotates by `base ** (-2 m / d) * sum a_uhm` over
`u <= t`; a is a short convolution of a low-rank projection of the normalised token.
Source: Movahedi et al. 2025, arXiv:2511.17388, from the authors' released module
(selective_rope/modules/rotary.py); this is its default without the gate.
`gate` is its standard one, a factor from 0 to 1 a head.
Layout: `half` pairs channel i with i + d/2, as in the code.
Convention: each part of the token, model_dim / heads channels, has unit length. Only
the order of the tokens is used, no position ids.
"""

import torch
from einops import rearrange
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.convolution import over_past
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.layers import apply_wide
from posenc_compare.schemes.shared.rotation import pair_count, rotate, rotation_table

TAPS = 4  # tokens that the convolution sees
LEAST = 1e-6  # under the root of a length


@register(
    "selective_rope",
    family="contextual",
    source="Movahedi et al. 2025, arXiv:2511.17388",
    identities="equals `nope` with zero taps",
    checked="authors' code, paper not opened",
)
class SelectiveRope(Scheme):
    """Rotate queries and keys by the sum of the angles of all tokens so far.

    Args:
        geometry: `head_dim` channels are rotated; `heads` must divide `model_dim`.
        base: slowness of the slowest pair, in tokens.
        rank: width between the two layers that make the angles.
        gate: let each token weaken its own angles, by head.
    """

    facts = Facts(per_layer=True, by_order=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 500_000.0,
        rank: int = 16,
        gate: bool = False,
    ) -> None:
        super().__init__(geometry)
        width, heads = geometry.model_dim, geometry.heads
        if rank < 1:
            raise ConfigError(f"selective_rope: rank must be at least 1, got {rank}")
        if width % heads:
            raise ConfigError(
                f"selective_rope: heads must divide model_dim, got {heads} and {width}"
            )
        if not base > 0:
            raise ConfigError(
                f"selective_rope: base must be greater than 0, got {base}"
            )
        self.base = base
        self.pairs = pair_count("selective_rope", geometry.head_dim)
        inner = heads * self.pairs
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, inner, bias=False)
        # One row of taps per channel; the first tap is the token's own.
        self.taps = nn.Linear(TAPS, inner, bias=False)
        self.gate = nn.Linear(width, heads) if gate else None

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """Return angles before the convolution and gates, `(batch, key, channel)`."""
        parts = rearrange(x, "b key (head c) -> b key head c", head=self.geometry.heads)
        wide = parts.to(torch.promote_types(x.dtype, torch.float32))
        length = (wide.square().sum(dim=-1, keepdim=True) + LEAST).sqrt()
        unit = (wide / length).flatten(-2)
        made = [apply_wide(self.up, apply_wide(self.down, unit))]
        if self.gate is not None:
            made.append(apply_wide(self.gate, unit).sigmoid())
        state = torch.cat(made, dim=-1)
        return state if past is None else torch.cat([past, state], dim=1)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._rotated(q, call, of_queries=True)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._rotated(k, call, of_queries=False)

    def angles(self, call: Call) -> Tensor:
        """Return the angle of every pair at every key, `(batch, head, key, pair)`."""
        if call.state is None:
            raise ConfigError(
                "selective_rope: needs the state that token_state returns, got none"
            )
        inner = self.geometry.heads * self.pairs
        made, gates = call.state.tensor_split([inner], dim=-1)
        made = over_past(made, self.taps.weight, call.segments)
        turned = rearrange(made, "b key (head p) -> b head key p", p=self.pairs)
        if self.gate is not None:
            turned = turned * gates.mT[..., None]
        slowness = inverse_frequencies(self.pairs, self.base, made.device)
        return turned.double().cumsum(dim=-2) * slowness

    def _rotated(self, x: Tensor, call: Call | None, *, of_queries: bool) -> Tensor:
        if call is None:
            raise ConfigError("selective_rope: needs the call, got none")

        def made() -> Tensor:
            angles = self.angles(call)
            return torch.polar(torch.ones_like(angles), angles)

        # The state is what angles depend on; every layer and every pass has its own.
        known = call.k_positions if call.state is None else call.state
        phasors = call.once(self, "angles", known, made)
        if of_queries:
            phasors = phasors[..., call.past : call.past + x.shape[-2], :]
        return rotate(x, rotation_table(phasors, x.dtype, "half"), "half")
