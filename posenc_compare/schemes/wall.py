"""Wall attention.

Every token closes a gate for each channel of a head, and a channel of the product of
query and key is multiplied by the gates of all tokens between them: FoX by channel,
inside the product instead of beside it.

Formula: logits `sum of q_in k_jn exp(P_in - P_jn) / sqrt(d)` over channels n, where P
sums `logsigmoid(W x + c)` over the tokens so far.
Source: no paper; Tilde Research 2026, from the released code (flash-linear-attention,
layers/wall_attn.py).
Start: as there, W is normal with standard deviation 0.02 and c is 8, so that all gates
are nearly open.
Gate: `forget` adds FoX's gate for each head, the code's scalar gate, with the same c.
Direction: a key's own gate does not count, so a token sees itself undiminished.
Convention: only the order of the tokens is used, no position ids.
Blocks: the decay from a key to the first query of a block is applied to the key, and
the rest to the query, so that neither factor exceeds 1. Within a block the same split
is applied to halves, down to single tokens.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.layers import apply_wide

STD = 0.02  # of the initial weights
BLOCK = 32  # queries in a product


@register(
    "wall",
    family="contextual",
    source="Tilde Research 2026, github.com/fla-org/flash-linear-attention",
    identities="equals `nope` with open gates; with shut gates a token sees only "
    "itself",
    checked="authors' code; no paper",
)
class Wall(Scheme):
    """Let every channel of the product decay by gates of its own.

    `(model_dim + 1) * heads * head_dim` parameters.

    Args:
        geometry: `model_dim` channels make `heads * head_dim` gates.
        bias: initial bias of the gates, before the sigmoid.
        forget: add a gate for each head.
    """

    facts = Facts(per_layer=True, by_order=True, causal_only=True)

    def __init__(
        self, geometry: Geometry, *, bias: float = 8.0, forget: bool = False
    ) -> None:
        super().__init__(geometry)
        width, heads = geometry.model_dim, geometry.heads
        self.gates = nn.Linear(width, heads * geometry.head_dim)
        self.gate = nn.Linear(width, heads) if forget else None
        for layer in filter(None, (self.gates, self.gate)):
            nn.init.normal_(layer.weight, std=STD)
            nn.init.constant_(layer.bias, bias)

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """Return the sums of the logarithms of all gates, `(batch, key, channel)`.

        In float64: what is used are differences of sums that grow with the text.
        """
        layers = filter(None, (self.gates, self.gate))
        made = torch.cat([apply_wide(layer, x) for layer in layers], dim=-1)
        total = F.logsigmoid(made.double()).cumsum(dim=1)
        if past is None:
            return total
        before = past[:, -1:].sum(dim=1, keepdim=True)  # 0 if no key is past
        return torch.cat([past, before + total], dim=1)

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        if call.state is None:
            raise ConfigError(
                "wall: needs the state that token_state returns, got none"
            )
        heads, queries = self.geometry.heads, call.sizes[0]
        inner = heads * self.geometry.head_dim
        total, forgets = call.state.tensor_split([inner], dim=-1)
        total = rearrange(total, "b key (head d) -> b head key d", head=heads)
        q, k = call.q.to(logits.dtype), call.k.to(logits.dtype)
        rows = [
            self._rows(q[:, :, start : start + BLOCK], k, total, call.past + start)
            for start in range(0, queries, BLOCK)
        ]
        logits = torch.cat(rows, dim=2) * self.scale(call.q.shape[-1])
        if self.gate is not None:
            passed = forgets.mT[:, :, call.past : call.past + queries, None]
            passed = passed - forgets.mT[:, :, None]
            logits = logits + passed.to(logits.dtype)
        return logits

    def _rows(self, q: Tensor, k: Tensor, total: Tensor, first: int) -> Tensor:
        """Return the products of some queries with all keys, `(..., query, key)`.

        Args:
            q: `(batch, head, query, head_dim)`.
            k: `(batch, head, key, head_dim)`.
            total: `(batch, head, key, head_dim)`, logarithms, summed.
            first: the key that is the first query.
        """
        queries, keys = q.shape[2], k.shape[2]
        here = total[:, :, first : first + queries]
        near = _among(q, k[:, :, first : first + queries], here)
        near = F.pad(near, (0, keys - first - queries))
        if not first:
            return near
        to_queries = (here - here[:, :, :1]).exp().to(q.dtype)
        to_first = (here[:, :, :1] - total[:, :, :first]).exp().to(q.dtype)
        before = (q * to_queries) @ (k[:, :, :first] * to_first).mT
        return torch.cat([before, near], dim=-1)


def _among(q: Tensor, k: Tensor, total: Tensor) -> Tensor:
    """Return the products of queries with the keys of the same tokens, 0 behind them.

    Spans of tokens grow from one to all, two to one. The keys of the first decay up to
    the second's first token, and the queries of the second from there on.

    Args:
        q: `(batch, head, token, head_dim)`.
        k: likewise.
        total: likewise, logarithms, summed.

    Returns:
        `(batch, head, token, token)`.
    """
    count = q.shape[2]
    whole = 1 << (count - 1).bit_length()
    q, k = (F.pad(x, (0, 0, 0, whole - count)) for x in (q, k))
    total = torch.cat([total, total[:, :, -1:].expand(-1, -1, whole - count, -1)], 2)
    found = (q * k).sum(dim=-1)[..., None, None]  # (batch, head, span, query, key)
    span = 1
    while span < whole:
        late_q = q.unflatten(2, (-1, 2, span))[:, :, :, 1]
        early_k = k.unflatten(2, (-1, 2, span))[:, :, :, 0]
        early, late = total.unflatten(2, (-1, 2, span)).unbind(dim=3)
        cut = late[..., :1, :]
        late_q = late_q * (late - cut).exp().to(q.dtype)
        early_k = early_k * (cut - early).exp().to(q.dtype)
        first, second = found.unflatten(2, (-1, 2)).unbind(dim=3)
        second = torch.cat([late_q @ early_k.mT, second], dim=-1)
        found = torch.cat([F.pad(first, (0, span)), second], dim=-2)
        span *= 2
    return found[:, :, 0, :count, :count]
