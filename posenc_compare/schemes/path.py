"""PaTH attention: position by accumulated Householder products.

On its way to the query, a key is changed by every token in between: each takes off
part of what the key has along a direction of its own, or reflects it.

Formula: logits `q_i H_i ... H_{j+1} k_j / sqrt(d)` with `H_t = I - beta_t w_t w_t'`.
Source: Yang et al. 2025, arXiv:2505.16381, section 2.2; rank, SiLU and convolution
from the authors' released code (flash-linear-attention, layers/path_attn.py), initial
values are torch's, as the paper's were not found.
Direction: the query's own matrix counts, the key's own does not. Only the order of the
tokens is used, no position ids.
Gate: `forget` gives PaTH-FoX as released, which divides the logarithm of FoX's gates
by sqrt(d) along with the product; FoX itself does not.
Blocks: keys are processed from the last block to the first, as in the authors' kernel.
A triangular solve gives the product of a block, which is applied to the queries before
the next block.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.convolution import over_past
from posenc_compare.schemes.shared.layers import apply_wide

KEYS = 128  # in a block, whose product of reflections is written as one matrix
TAPS = 3  # tokens that the convolution sees


@register(
    "path",
    family="contextual",
    source="Yang et al. 2025, arXiv:2505.16381",
    identities="equals `nope` with strength 0",
    checked="paper, authors' code; the paper's start was not found",
)
class Path(Scheme):
    """Multiply by one reflection for each token between key and query.

    Args:
        geometry: `heads` directions of `head_dim` channels.
        rank: width between the two layers that make the directions.
        convolve: let a direction depend on the two tokens before as well.
        forget: add a forget gate.
    """

    facts = Facts(per_layer=True, by_order=True, causal_only=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        rank: int = 32,
        convolve: bool = True,
        forget: bool = False,
    ) -> None:
        super().__init__(geometry)
        if rank < 1:
            raise ConfigError(f"path: rank must be at least 1, got {rank}")
        width, heads = geometry.model_dim, geometry.heads
        inner = heads * geometry.head_dim
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, inner, bias=False)
        # One row of taps per channel; the first tap is the token's own.
        self.taps = nn.Linear(TAPS, inner, bias=False) if convolve else None
        self.strength = nn.Linear(width, heads)
        self.gate = nn.Linear(width, heads) if forget else None

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """Return what the layers make of each token, `(batch, key, channel)`."""
        parts = [apply_wide(self.up, apply_wide(self.down, x))]
        parts.append(apply_wide(self.strength, x))
        if self.gate is not None:
            parts.append(apply_wide(self.gate, x))
        made = torch.cat(parts, dim=-1)
        return made if past is None else torch.cat([past, made], dim=1)

    def directions(self, made: Tensor, segments: Tensor | None) -> Tensor:
        """Return w of every key, `(batch, head, key, head_dim)`, of unit length."""
        if self.taps is not None:
            made = F.silu(over_past(made, self.taps.weight, segments))
        w = rearrange(made, "b key (head d) -> b head key d", head=self.geometry.heads)
        return F.normalize(w, dim=-1)

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        if call.state is None:
            raise ConfigError(
                "path: needs the state that token_state returns, got none"
            )
        heads, keys = self.geometry.heads, call.sizes[1]
        inner = heads * self.geometry.head_dim
        made, *others = call.state.to(logits.dtype).tensor_split(
            [inner, inner + heads], dim=-1
        )
        beta, gate = (other.mT for other in others)  # (batch, head or 0, key)
        w, scale = self.directions(made, call.segments), self.scale(call.q.shape[-1])
        beta = 2 * beta.sigmoid()[..., None]
        q, k = call.q.to(logits.dtype), call.k.to(logits.dtype)
        turned, parts = q, []  # queries, turned by all keys behind a block
        for start in reversed(range(0, keys, KEYS)):
            block = slice(start, start + KEYS)
            seen = (turned @ w[:, :, block].mT).tril(call.past - start)
            there = (part[:, :, block] for part in (w, beta, k))
            to_keys, to_queries = reached(*there)
            further = -(seen @ to_keys)
            if turned is not q:
                further = (turned - q) @ k[:, :, block].mT + further
            parts.append(further * scale)
            if start:
                turned = turned - seen @ to_queries
        logits = logits + torch.cat(parts[::-1], dim=-1)
        if self.gate is not None:
            total = F.logsigmoid(gate.double()).cumsum(dim=-1)
            passed = total[..., call.past :, None] - total[..., None, :]
            logits = logits + passed.to(logits.dtype) * scale
        return logits


def reached(w: Tensor, beta: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Return what a block of keys takes from what its directions see of a query.

    With L the strictly lower part of beta w w', the product of H_i ... H_{j+1} is
    I - w' (I + L)^-1 beta w, over the rows from j + 1 to i.

    Args:
        w: `(batch, head, key, head_dim)`.
        beta: `(batch, head, key, 1)`.
        k: `(batch, head, key, head_dim)`.

    Returns:
        For each direction, from the product with each key of the block, `(..., key,
        key)`, and from the query itself, `(..., key, head_dim)`.
    """
    unit = torch.eye(w.shape[2], dtype=w.dtype, device=w.device)
    system = (beta * w @ w.mT).tril(-1) + unit
    right = torch.cat([(beta * w @ k.mT).tril(-1), beta * w], dim=-1)
    found = torch.linalg.solve_triangular(
        system, right, upper=False, unitriangular=True
    )
    to_keys, to_queries = found.split([w.shape[2], w.shape[3]], dim=-1)
    return to_keys, to_queries
