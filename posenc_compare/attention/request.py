"""One attention call with everything asked of the scheme, ready for any path."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from posenc_compare.attention.plan import Plan, repeat_heads
from posenc_compare.errors import HookError, ShapeError
from posenc_compare.schemes.contract import ask, ask_offsets, ask_scale, check_returned
from posenc_compare.schemes.scheme import (
    Call,
    PairBias,
    Scheme,
    Table,
    WholeBias,
    all_pairs,
    index_grid,
    once,
)

SPAN = 1 << 24  # offsets that one offset bias may be asked for
SPARSE = 64  # offsets for each pair of tokens, above which only those there are asked
PAIRS = 1 << 16  # real offsets that an offset bias is asked for at a time
WHOLE_ROWS = ("scores", "weights", "values")  # hooks that see all logits of a row
Join = Callable[[Tensor], Tensor]

QUERIES = 512  # queries at a time, where something is written for every pair


@dataclass(frozen=True)
class OffsetVector:
    """An offset bias on every offset that occurs: `values[head, offset - first]`."""

    values: Tensor  # (heads, offset), float32 or wider
    first: int


@dataclass(frozen=True)
class Request:
    """What a path is asked for.

    Attributes:
        scheme: whose hooks were opened.
        plan: of the forward pass.
        call: what the hooks saw.
        q: `(batch, heads, query, head_dim)` after the hook `query`.
        k: `(batch, key_heads, key, head_dim)` after the hook `key`.
        v: `(batch, key_heads, key, value_dim)`.
        scale: factor of every product of query and key.
        vector: the offset bias of whole positions, if there is one and each token has
            a position.
    """

    scheme: Scheme
    plan: Plan
    call: Call
    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    vector: OffsetVector | None
    _made: Table = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        scheme: Scheme,
        plan: Plan,
        call: Call,
        v: Tensor,
        join: Join | None = None,
    ) -> "Request":
        """Open the hooks of the scheme.

        With `join`, the queries are the last tokens: only their keys pass through the
        hook `key`, and `join` puts those of earlier passes before them.
        """
        q = ask(scheme, "query", call.q, call.q_positions, call)
        if join is None:
            k = ask(scheme, "key", call.k, call.k_positions, call)
        else:
            new = call.k[:, :, -call.q.shape[2] :]
            k = join(ask(scheme, "key", new, call.q_positions, call))
        if call.q_placed is not None and call.k_placed is not None:
            q = q.where(call.q_placed[:, None, :, None], call.q)
            k = k.where(call.k_placed[:, None, :, None], call.k)
        q, k = (_cast(scheme, x, v.dtype) for x in (q, k))
        v = v if v.shape[1] == k.shape[1] else repeat_heads(v, k.shape[1])
        vector = _vector(scheme, plan, call)
        scale = ask_scale(scheme, call.q.shape[-1])
        return cls(scheme, plan, call, q, k, v, scale, vector)

    @property
    def bias(self) -> PairBias | None:
        """Return offset and pair bias in one, or None; made when first asked for."""
        return once(self._made, ("bias",), self._bias)

    def _bias(self) -> PairBias | None:
        if self.vector is not None:
            offset = _as_pair_bias(self.vector, self.call)
        else:
            offset = _of_each_offset(self.scheme, self.call)
        parts = [part for part in (offset, _pairwise(self.scheme, self.call)) if part]
        bias = _sum(*parts) if len(parts) == 2 else next(iter(parts), None)
        return bias and _between_placed(bias, self.call)

    @property
    def biased(self) -> bool:
        """Return whether there is a bias; a pair bias is asked of the first rows."""
        return self.vector is not None or self.rows(*self.blocks[0]).bias is not None

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Return first and last + 1 of the queries of each block.

        So what is written for every pair does not grow with the square of the length.
        """
        queries = self.call.sizes[0]
        starts = range(0, queries, QUERIES)
        return [(start, min(start + QUERIES, queries)) for start in starts]

    def rows(self, start: int, stop: int) -> "Request":
        """Return the request of a block."""
        if (start, stop) == (0, self.call.sizes[0]):
            return self
        call = self.call.part(start, stop)
        seen = call.sizes[1]
        return replace(
            self,
            call=call,
            q=self.q[:, :, start:stop],
            k=self.k[:, :, :seen],
            v=self.v[:, :, :seen],
        )

    def by_rows(self, run: Callable[["Request"], Tensor]) -> Tensor:
        """Return what `run` makes of each block, one below the other.

        Between two passes nothing is kept of a block but what comes in: the backward
        pass computes it again.
        """

        def one(start: int, stop: int) -> Tensor:
            return run(self.rows(start, stop))

        if len(self.blocks) == 1:
            return run(self)
        if not torch.is_grad_enabled():
            return torch.cat([one(*block) for block in self.blocks], dim=2)
        again = partial(checkpoint, one, use_reentrant=False, preserve_rng_state=False)
        return torch.cat([again(*block) for block in self.blocks], dim=2)

    @property
    def grouped(self) -> bool:
        """Return whether queries share heads of keys and values."""
        return self.q.shape[1] != self.k.shape[1]

    def whole_heads(self) -> tuple[Tensor, Tensor]:
        """Return keys and values with a head for each head of the queries."""
        if not self.grouped:
            return self.k, self.v
        heads = self.q.shape[1]
        return repeat_heads(self.k, heads), repeat_heads(self.v, heads)

    def added(self) -> Tensor:
        """Return the bias of all pairs, `(batch or 1, heads, query, key)`."""
        assert self.bias is not None
        batch, heads = self.call.q.shape[:2]
        shared = self.call.q_positions.shape[0] == self.call.k_positions.shape[0] == 1
        if shared and not self.scheme.acts_at("pair_bias"):
            batch = 1
        grid = index_grid(batch, heads, *self.call.sizes, self.q.device)
        return self.bias(*grid).expand(batch, heads, *self.call.sizes)

    def whole_rows(self) -> str:
        """Return why whole rows of logits must be written out, or nothing."""
        acts = [hook for hook in WHOLE_ROWS if self.scheme.acts_at(hook)]
        return f"{self.scheme.name} acts at {' and '.join(acts)}" if acts else ""

    def mask_dtype(self) -> torch.dtype:
        """Return the dtype of an additive mask; CUDA kernels want that of queries."""
        wide = torch.promote_types(self.q.dtype, torch.float32)
        return self.q.dtype if self.q.is_cuda else wide


def _cast(scheme: Scheme, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return queries or keys in the dtype of the values, if that can hold them."""
    got = x.to(dtype)
    narrower = torch.finfo(dtype).tiny > torch.finfo(x.dtype).tiny
    if narrower and bool((x.isfinite() & ~got.isfinite()).any()):
        raise HookError(
            f"{scheme.name}: queries and keys must fit into the dtype of v, {dtype}, "
            f"got numbers up to {x.abs().max():.1e}; v in {x.dtype} would work"
        )
    return got


def _vector(scheme: Scheme, plan: Plan, call: Call) -> OffsetVector | None:
    """Return the offset bias of whole positions, shared by layers if nothing learns.

    None if there is none, or it is asked for each pair. Layers that share a vector
    would sum its gradients in another order than one by one.
    """
    if not scheme.acts_at("offset_bias"):
        return None
    if scheme.facts.axes != 1:
        raise ShapeError(
            f"{scheme.name}: offset_bias must have positions of one axis, got "
            f"{scheme.facts.axes}; use pair_bias"
        )
    if _asks_each_pair(call):
        return None
    learns = any(parameter.requires_grad for parameter in scheme.parameters())
    own = "offset_bias" in scheme.asks_call or (learns and torch.is_grad_enabled())
    if own:
        return _call_offset_bias(scheme, plan, call)
    heads = call.q.shape[1]
    return plan.once(
        lambda: _call_offset_bias(scheme, plan, call), scheme, "vector", heads
    )


def _call_offset_bias(scheme: Scheme, plan: Plan, call: Call) -> OffsetVector | None:
    first, last = plan.offsets
    if last - first >= SPAN:
        raise ShapeError(
            f"{scheme.name}: offsets must lie within {SPAN - 1} of each other for an "
            f"offset bias, got those from {first} to {last}"
        )
    heads, span = call.q.shape[1], last - first + 1
    offsets = torch.arange(first, last + 1, device=call.q_positions.device)
    if span > SPARSE * math.prod(call.sizes):  # few ids that lie far apart
        apart = call.k_positions[..., None, :] - call.q_positions[..., None]
        offsets = apart.unique()
    values = ask_offsets(scheme, offsets, heads, call)
    if values is not None and len(offsets) < span:
        values = values.new_zeros(heads, span).index_copy(1, offsets - first, values)
    return None if values is None else OffsetVector(values, first)


def _pairwise(scheme: Scheme, call: Call) -> PairBias | None:
    """Return the pair bias of a scheme, made to refuse what is not pairwise."""
    pair = scheme.pair_bias(call)
    if pair is None:
        return None
    if not callable(pair):
        raise HookError(
            f"{scheme.name}: pair_bias must return a function or None, "
            f"got {type(pair).__name__}"
        )

    one = pair.one if isinstance(pair, WholeBias) else pair

    def bias(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if not i.dim():  # the fused kernel asks for one pair, and checks itself
            return one(b, h, i, j)
        added = all_pairs(pair, call)
        full = (*call.q.shape[:2], *call.sizes)
        shape = tuple(getattr(added, "shape", ()))
        # What depends on no batch or no head may lack those axes.
        lead = zip(shape[-3::-1], full[1::-1], strict=False)
        fits = len(shape) <= 4 and shape[-2:] == full[2:]
        fits = fits and all(n in (1, size) for n, size in lead)
        check_returned(scheme, "pair_bias", added, shape if fits else full, i)
        return added

    return bias


def _sum(one: PairBias, other: PairBias) -> PairBias:
    """Return the pair bias that adds two."""
    return lambda b, h, i, j: one(b, h, i, j) + other(b, h, i, j)


def _between_placed(bias: PairBias, call: Call) -> PairBias:
    """Return the bias of pairs that both have a position, and 0 for the others."""
    if call.q_placed is None or call.k_placed is None:
        return bias
    batch = call.q.shape[0]
    here, there = (x.expand(batch, -1) for x in (call.q_placed, call.k_placed))
    return lambda b, h, i, j: bias(b, h, i, j).where(here[b, i] & there[b, j], 0)


def _asks_each_pair(call: Call) -> bool:
    """Return whether offsets are not the whole numbers from a first to a last."""
    return call.q_positions.is_floating_point() or call.q_placed is not None


def _of_each_offset(scheme: Scheme, call: Call) -> PairBias | None:
    """Return the offset bias asked for the offset of each pair, if it has to be."""
    if not _asks_each_pair(call) or not scheme.acts_at("offset_bias"):
        return None
    batch, heads = call.q.shape[:2]
    offsets = call.k_positions[:, None, :] - call.q_positions[:, :, None]
    parts = [
        ask_offsets(scheme, part, heads, call)
        for part in offsets.flatten().split(PAIRS)
    ]
    asked = [part for part in parts if part is not None]
    if not asked:
        return None
    values = torch.cat(asked, dim=1).reshape(-1, *offsets.shape)
    values = values.expand(-1, batch, -1, -1)  # (heads, batch, query, key)
    return lambda b, h, i, j: values[h, b, i, j]


def _as_pair_bias(vector: OffsetVector, call: Call) -> PairBias:
    """Write an offset vector as a pair bias."""
    batch = call.q.shape[0]
    # Offsets count from `first`, which goes into a tensor: a number inside the
    # function would make the fused kernel compile anew for every length.
    starts = call.q_positions.expand(batch, -1) + vector.first
    k_positions = call.k_positions.expand(batch, -1)

    def bias(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return vector.values[h, k_positions[b, j] - starts[b, i]]

    return bias
