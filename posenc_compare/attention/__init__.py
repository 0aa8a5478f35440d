"""Attention through the hook, on the fastest path that is exact.

`attention` asks the scheme for what it adds and picks a path:

| path    | used when                                                      |
|---------|----------------------------------------------------------------|
| fused   | nothing is added and the mask is none or plain causal          |
| strided | the bias depends on the offset alone and positions are runs    |
| flex    | on CUDA, for anything pointwise                                |
| dense   | anything pointwise, if products in the future stay finite      |
| plain   | whole rows of logits or the values change; the reference       |

Masks go by index, never by position id: a query sees the keys up to its own index
and, where `segments` are given, those of its own segment.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.errors import ConfigError, DoorError, ShapeError
from posenc_compare.schemes.call import Call, PairBias, index_grid, whole_numbers
from posenc_compare.schemes.contract import ask, check_returned
from posenc_compare.schemes.scheme import Scheme

Path = Literal["fused", "strided", "flex", "dense", "plain"]

BLOCK = 512  # query rows per block of the strided path
BACKWARD_BLOCK = 128  # the same where all logits of a block are written out
SPAN = 1 << 24  # offsets that one offset bias may be asked for
FLEX_DTYPES = (torch.float16, torch.bfloat16, torch.float32)  # of compiled flex
FLEX_WIDTH = 16  # channels of a head that compiled flex needs at least
ON_HEADS = ("query", "key", "offset_bias", "pair_bias", "scores", "values")
KERNELS = 64  # forms of flex that one process may compile; torch allows 8


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scheme: Scheme,
    positions: Tensor,
    key_positions: Tensor | None = None,
    causal: bool = True,
    segments: Tensor | None = None,
    state: Tensor | None = None,
    path: Path | Literal["auto"] = "auto",
) -> Tensor:
    """Attend from queries to keys under a positional scheme.

    While decoding, queries are the last of the keys: pass the keys as they were
    before the hook, with `key_positions`, and the state of all keys.

    Args:
        q: `(batch, heads, query, head_dim)` queries, as projected.
        k: `(batch, heads, key, head_dim)` keys, as projected; key >= query.
        v: `(batch, heads, key, head_dim)` values.
        scheme: the positional scheme.
        positions: `(query,)` or `(batch, query)` int64 position of each query.
        key_positions: the same for keys; may be left out if there are as many keys
            as queries.
        causal: hide the keys after a query's own index.
        segments: `(batch, key)` whole numbers; a query sees its own segment only.
            Packed documents get a number each, and so does padding.
        state: `(batch, key, ...)` what `scheme.token_state` returned.
        path: force a path; `auto` takes the fastest that applies.

    Returns:
        `(batch, heads, query, head_dim)` in the dtype of `v`.

    Raises:
        ShapeError: if sizes or position ids do not fit together.
        ConfigError: if the scheme needs a causal mask, or the path cannot serve it.
    """
    call = _open(scheme, q, k, positions, key_positions, causal, segments, state)
    if v.shape[:3] != k.shape[:3]:
        raise ShapeError(
            f"attention: v must have the batch, heads and keys of k, "
            f"{tuple(k.shape[:3])}, got {tuple(v.shape[:3])}"
        )
    with torch.autocast(q.device.type, enabled=False):
        run = _Run.of(scheme, call, v)
        paths = run.paths()
        if path != "auto" and path not in paths:
            raise ConfigError(
                f"attention: path {path!r} cannot serve {scheme.name} here; "
                f"{' or '.join(paths)} can"
            )
        chosen = paths[0] if path == "auto" else path
        return getattr(run, chosen)()


def attention_logits(
    q: Tensor,
    k: Tensor,
    *,
    scheme: Scheme,
    positions: Tensor,
    causal: bool = True,
    state: Tensor | None = None,
) -> Tensor:
    """Return the logits that `attention` would take the softmax of.

    Args and errors are those of `attention`.

    Returns:
        `(batch, heads, query, key)`, -inf where a query may not look.
    """
    call = _open(scheme, q, k, positions, None, causal, None, state)
    with torch.autocast(q.device.type, enabled=False):
        return _Run.of(scheme, call, k).logits()


def _open(
    scheme: Scheme,
    q: Tensor,
    k: Tensor,
    positions: Tensor,
    key_positions: Tensor | None,
    causal: bool,
    segments: Tensor | None,
    state: Tensor | None,
) -> Call:
    """Check what came and put it into one record."""
    if q.dim() != 4:
        raise ShapeError(
            f"attention: q must be (batch, heads, query, head_dim), "
            f"got {tuple(q.shape)}"
        )
    batch, heads, queries, head_dim = q.shape
    fits = k.dim() == 4 and k.shape[:2] == (batch, heads) and k.shape[3] == head_dim
    if not fits or k.shape[2] < queries:
        raise ShapeError(
            f"attention: k must be ({batch}, {heads}, key, {head_dim}) with key at "
            f"least {queries}, got {tuple(k.shape)}"
        )
    keys = k.shape[2]
    _check_sizes(scheme, heads, head_dim)
    if scheme.facts.causal_only and not causal:
        raise ConfigError(f"{scheme.name}: needs a causal mask, got causal=False")
    if segments is not None:
        segments = whole_numbers("attention: segments", segments)
        if segments.shape != (batch, keys):
            raise ShapeError(
                f"attention: segments must be ({batch}, {keys}), one for each key, "
                f"got {tuple(segments.shape)}"
            )
    if state is not None and state.shape[:2] != (batch, keys):
        raise ShapeError(
            f"attention: state must be ({batch}, {keys}, ...), one for each key, "
            f"got {tuple(state.shape)}"
        )
    if queries == 0:
        raise ShapeError("attention: q must hold at least one query, got none")
    axes = scheme.facts.axes
    q_positions = _ids(positions, batch, queries, axes, "positions")
    if key_positions is None:
        who = "positions without key_positions"
        k_positions = _ids(positions, batch, keys, axes, who)
    else:
        k_positions = _ids(key_positions, batch, keys, axes, "key_positions")
    return Call(q, k, q_positions, k_positions, state, causal, segments)


def _check_sizes(scheme: Scheme, heads: int, head_dim: int) -> None:
    """Refuse other heads than a scheme was built for, where they matter to it.

    What it does could broadcast over them, or serve the first few. A turn without
    parameters is the same for all heads, and a bias that never looks at queries and
    keys the same for every `head_dim`.
    """
    doors = {door for door in ON_HEADS if scheme.acts_at(door)}
    if not doors:
        return
    parts = [part for part in scheme.modules() if isinstance(part, Scheme)]
    turns = doors <= {"query", "key"} and next(scheme.parameters(), None) is None
    alike = turns and len({part.geometry.heads for part in parts}) == 1
    looks = doors - {"offset_bias", "pair_bias"} or scheme.family == "contextual"
    for size, got, free in (
        ("heads", heads, alike),
        ("head_dim", head_dim, not looks),
    ):
        built = getattr(scheme.geometry, size)
        if got != built and not free:
            raise ShapeError(
                f"{scheme.name}: q must have the {size} that the scheme was built for, "
                f"{built}, got {got}; one built with {size}={got} would work"
            )


def _ids(positions: Tensor, batch: int, length: int, axes: int, who: str) -> Tensor:
    positions = whole_numbers(f"attention: {who}", positions)
    last = () if axes == 1 else (axes,)
    ids = positions[None] if positions.dim() == 1 + len(last) else positions
    if ids.shape not in {(rows, length, *last) for rows in (1, batch)}:
        shapes = " or ".join(str((*rows, length, *last)) for rows in ((), (batch,)))
        raise ShapeError(
            f"attention: {who} must be {shapes}, got {tuple(positions.shape)}"
        )
    return ids


@dataclass(frozen=True)
class _OffsetVector:
    """An offset bias on every offset that occurs: `values[head, offset - first]`."""

    values: Tensor  # (heads, offset), float32 or wider
    first: int

    @classmethod
    def of(cls, scheme: Scheme, call: Call) -> "_OffsetVector | None":
        if not scheme.acts_at("offset_bias"):
            return None
        if scheme.facts.axes != 1:
            raise ShapeError(
                f"{scheme.name}: offset_bias must have positions of one axis, got "
                f"{scheme.facts.axes}; use pair_bias"
            )
        q_low, q_high = call.q_positions.aminmax(dim=1)
        k_low, k_high = call.k_positions.aminmax(dim=1)
        first, last = int((k_low - q_high).min()), int((k_high - q_low).max())
        if last - first >= SPAN:
            raise ShapeError(
                f"{scheme.name}: positions must lie within {SPAN} of each other for "
                f"an offset bias, got offsets from {first} to {last}"
            )
        device = call.q_positions.device
        offsets = torch.arange(first, last + 1, device=device)
        values = scheme.offset_bias(offsets)
        if values is None:
            return None
        wanted = (call.q.shape[1], last - first + 1)
        check_returned(scheme, "offset_bias", values, wanted, offsets)
        return cls(values, first)


@dataclass(frozen=True)
class _Run:
    """One attention call with everything asked of the scheme, ready for any path."""

    scheme: Scheme
    call: Call
    q: Tensor  # after the door `query`
    k: Tensor  # after the door `key`
    v: Tensor
    scale: float
    vector: _OffsetVector | None
    bias: PairBias | None  # offset and pair bias in one

    @classmethod
    def of(cls, scheme: Scheme, call: Call, v: Tensor) -> "_Run":
        scheme.check_call(call)
        q = ask(scheme, "query", call.q, call.q_positions)
        k = ask(scheme, "key", call.k, call.k_positions)
        q, k = (_cast(scheme, x, v.dtype) for x in (q, k))
        vector = _OffsetVector.of(scheme, call)
        pair = _pairwise(scheme, call)
        bias = pair if vector is None else _gathered(vector, call, pair)
        scale = scheme.scale(call.q.shape[-1])
        return cls(scheme, call, q, k, v, scale, vector, bias)

    def paths(self) -> list[str]:
        """Return the names of the paths that apply, fastest first."""
        if self.scheme.acts_at("scores") or self.scheme.acts_at("values"):
            return ["plain"]
        queries, keys = self.call.sizes
        whole = self.call.segments is None
        found = []
        if self.bias is None and whole:
            if not self.call.causal or queries in (1, keys):
                found.append("fused")
        offsets_only = self.vector is not None and not self.scheme.acts_at("pair_bias")
        if offsets_only and whole and _in_step(self.call):
            found.append("strided")
        turned = self.scheme.acts_at("query") or self.scheme.acts_at("key")
        if not (self.scheme.facts.causal_only and turned):
            found.append("dense")  # adds -inf to what may be inf in the future
        found.append("plain")
        tensors = [self.q, self.k, self.v, *self.scheme.parameters()]
        if self.q.is_cuda:
            narrow = min(self.q.shape[-1], self.v.shape[-1]) < FLEX_WIDTH
            if self.q.dtype in FLEX_DTYPES and not narrow:
                found.insert(found.count("fused"), "flex")
        elif not any(t.requires_grad for t in tensors):
            found.append("flex")  # not compiled
        return found

    def fused(self) -> Tensor:
        """Add nothing: one kernel. A single query sees all keys, so needs no mask."""
        return F.scaled_dot_product_attention(
            self.q,
            self.k,
            self.v,
            is_causal=self.call.causal and self.call.sizes[0] > 1,
            scale=self.scale,
        )

    def strided(self) -> Tensor:
        """Read the bias of each block of rows as a view of the offset vector."""
        assert self.vector is not None
        keys = self.call.sizes[1]
        values = self.vector.values.to(_mask_dtype(self.q))
        if self.call.causal:
            future = torch.arange(values.shape[1], device=values.device) >= keys
            values = values.masked_fill(future, -math.inf)
        inputs = (self.q, self.k, self.v, values.contiguous())
        if values.requires_grad:
            return _StridedBias.apply(*inputs, self.scale, self.call.causal)
        return _strided_forward(*inputs, self.scale, self.call.causal)

    def flex(self) -> Tensor:
        """Compile mask and bias into the kernel."""
        from torch.nn.attention import flex_attention as module

        queries, keys = self.call.sizes
        batch = None if self.call.segments is None else self.call.q.shape[0]
        mask = module.create_block_mask(
            lambda b, h, i, j: self.call.may_look(b, i, j),
            batch,
            None,
            queries,
            keys,
            device=self.q.device,
        )
        bias = self.bias

        def score_mod(
            score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor
        ) -> Tensor:
            return score if bias is None else score + bias(b, h, i, j).to(score.dtype)

        kernel = _compiled_flex() if self.q.is_cuda else module.flex_attention
        return kernel(
            self.q, self.k, self.v, score_mod, block_mask=mask, scale=self.scale
        )

    def dense(self) -> Tensor:
        """Build the bias for all pairs and hand it over as a mask."""
        mask = self.call.keep()
        if self.bias is not None:
            added = self._added().to(_mask_dtype(self.q))
            mask = added.masked_fill(~mask, -math.inf)
        return F.scaled_dot_product_attention(
            self.q, self.k, self.v, attn_mask=mask, scale=self.scale
        )

    def plain(self) -> Tensor:
        """Follow the definition, step by step, in float32 or wider."""
        weights = self.logits().softmax(dim=-1)
        out = weights @ self.v.to(weights.dtype)
        more = self.scheme.values(weights, self.call)
        if more is not None and getattr(more, "ndim", 1):
            check_returned(self.scheme, "values", more, out.shape, self.v)
        return (out if more is None else out + more).to(self.v.dtype)

    def logits(self) -> Tensor:
        """Return the logits, -inf where a query may not look."""
        wide = torch.promote_types(self.q.dtype, torch.float32)
        logits = self.q.to(wide) @ self.k.to(wide).mT * self.scale
        if self.bias is not None:
            logits = logits + self._added().to(wide)
        shape = logits.shape
        logits = self.scheme.scores(logits, self.call)
        check_returned(self.scheme, "scores", logits, shape, self.q)
        return logits.masked_fill(~self.call.keep(), -math.inf)

    def _added(self) -> Tensor:
        assert self.bias is not None
        batch, heads = self.call.q.shape[:2]
        shared = self.call.q_positions.shape[0] == self.call.k_positions.shape[0] == 1
        if shared and not self.scheme.acts_at("pair_bias"):
            batch = 1
        grid = index_grid(batch, heads, *self.call.sizes, self.q.device)
        return self.bias(*grid).expand(batch, heads, *self.call.sizes)


def _cast(scheme: Scheme, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return queries or keys in the dtype of the values, if that can hold them."""
    got = x.to(dtype)
    narrower = torch.finfo(dtype).tiny > torch.finfo(x.dtype).tiny
    if narrower and bool((x.isfinite() & ~got.isfinite()).any()):
        raise DoorError(
            f"{scheme.name}: queries and keys must fit into the dtype of v, {dtype}, "
            f"got numbers up to {x.abs().max():.1e}; v in {x.dtype} would work"
        )
    return got


def _pairwise(scheme: Scheme, call: Call) -> PairBias | None:
    """Return the pair bias of a scheme, made to refuse what is not pairwise."""
    pair = scheme.pair_bias(call)
    if pair is None:
        return None
    if not callable(pair):
        raise DoorError(
            f"{scheme.name}: pair_bias must return a function or None, "
            f"got {type(pair).__name__}"
        )

    def bias(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        added = pair(b, h, i, j)
        if i.dim():  # else the fused kernel asks for one pair, and checks itself
            full = (*call.q.shape[:2], *call.sizes)
            shape = tuple(getattr(added, "shape", ()))
            # What depends on no batch or no head may lack those axes.
            lead = zip(shape[-3::-1], full[1::-1], strict=False)
            fits = len(shape) <= 4 and shape[-2:] == full[2:]
            fits = fits and all(n in (1, size) for n, size in lead)
            check_returned(scheme, "pair_bias", added, shape if fits else full, i)
        return added

    return bias


def _gathered(vector: _OffsetVector, call: Call, pair: PairBias | None) -> PairBias:
    """Write an offset vector, and what a pair bias adds, as one pair bias."""
    batch = call.q.shape[0]
    # Offsets count from `first`, which goes into a tensor: a number inside the
    # function would make the fused kernel compile anew for every length.
    starts = call.q_positions.expand(batch, -1) + vector.first
    k_positions = call.k_positions.expand(batch, -1)

    def bias(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        added = vector.values[h, k_positions[b, j] - starts[b, i]]
        return added if pair is None else added + pair(b, h, i, j)

    return bias


def _in_step(call: Call) -> bool:
    """Return whether the offset of every pair is its index offset plus a constant."""
    runs = all(
        bool((ids.diff(dim=1) == 1).all())
        for ids in (call.q_positions, call.k_positions)
    )
    start = call.k_positions[:, :1] - call.q_positions[:, :1]
    return runs and bool((start == start[0]).all())


def _mask_dtype(q: Tensor) -> torch.dtype:
    """Return the dtype of an additive mask; CUDA kernels want that of the query."""
    return q.dtype if q.is_cuda else torch.promote_types(q.dtype, torch.float32)


@functools.cache
def _compiled_flex() -> Any:
    """Return flex attention, compiled for every score function and size by itself.

    Past its limit torch falls back, unasked, to a form that writes all pairs out.
    """
    from torch.nn.attention.flex_attention import flex_attention

    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, KERNELS)
    return torch.compile(flex_attention, dynamic=False)


# --- the strided path -------------------------------------------------------------
#
# With `n` queries, the bias of query i and key j is `values[head, j - i + n - 1]`.
# Down the rows that index falls, and torch has no negative strides: so the rows of a
# block are taken in reverse, and the bias becomes a view with strides (1, 1).


def _blocks(
    queries: int, keys: int, causal: bool, rows: int
) -> Iterator[tuple[int, int, int]]:
    """Yield first row, last row + 1 and number of keys seen, for blocks of `rows`."""
    for start in range(0, queries, rows):
        stop = min(start + rows, queries)
        yield start, stop, keys - queries + stop if causal else keys


def _reversed_bias(values: Tensor, rows: int, seen: int, skipped: int) -> Tensor:
    """View the bias of a block, last row first, as `(1, heads, rows, seen)`."""
    return values.as_strided(
        (1, values.shape[0], rows, seen),
        (0, values.stride(0), 1, 1),
        values.storage_offset() + skipped,
    )


def _strided_forward(
    q: Tensor, k: Tensor, v: Tensor, values: Tensor, scale: float, causal: bool
) -> Tensor:
    queries, keys = q.shape[2], k.shape[2]
    parts = []
    for start, stop, seen in _blocks(queries, keys, causal, BLOCK):
        part = F.scaled_dot_product_attention(
            q[:, :, start:stop].flip(2),
            k[:, :, :seen],
            v[:, :, :seen],
            attn_mask=_reversed_bias(values, stop - start, seen, queries - stop),
            scale=scale,
        )
        parts.append(part.flip(2))
    return torch.cat(parts, dim=2)


class _StridedBias(torch.autograd.Function):
    """The strided path with a gradient to the offset vector.

    A mask that requires a gradient would send the kernel to its slow form, so the
    backward pass recomputes each block, and sums the gradient of the bias along its
    diagonals.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(  # type: ignore[override]
        q: Tensor, k: Tensor, v: Tensor, values: Tensor, scale: float, causal: bool
    ) -> Tensor:
        # Detached: even in here, a mask with a gradient takes the slow kernel.
        return _strided_forward(q, k, v, values.detach(), scale, causal)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.scale, ctx.causal = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, values, out = (
            t.to(ctx.saved_tensors[3].dtype) for t in ctx.saved_tensors
        )
        grad = grad.to(values.dtype)
        dq, dk, dv, dvalues = (torch.zeros_like(t) for t in (q, k, v, values))
        queries = q.shape[2]
        blocks = _blocks(queries, k.shape[2], ctx.causal, BACKWARD_BLOCK)
        for start, stop, seen in blocks:
            rows, skipped = stop - start, queries - stop
            qs, grads, outs = (t[:, :, start:stop].flip(2) for t in (q, grad, out))
            ks, vs = k[:, :, :seen], v[:, :, :seen]
            bias = _reversed_bias(values, rows, seen, skipped)
            weights = torch.softmax(qs @ ks.mT * ctx.scale + bias, dim=-1)
            dv[:, :, :seen] += weights.mT @ grads
            inner = (grads * outs).sum(dim=-1, keepdim=True)
            dlogits = weights * (grads @ vs.mT - inner)
            dq[:, :, start:stop] = (dlogits @ ks * ctx.scale).flip(2)
            dk[:, :, :seen] += dlogits.mT @ qs * ctx.scale
            diagonals = _diagonal_sums(dlogits.sum(dim=0))
            dvalues[:, skipped : skipped + rows + seen - 1] += diagonals
        types = [t.dtype for t in ctx.saved_tensors[:3]]
        grads = [t.to(kind) for t, kind in zip((dq, dk, dv), types, strict=True)]
        return *grads, dvalues, None, None


def _diagonal_sums(x: Tensor) -> Tensor:
    """Sum `(heads, rows, columns)` over all pairs with the same row + column.

    Rows are laid out one element longer than they are read, so that every step down
    is a step to the left.

    Returns:
        `(heads, rows + columns - 1)`.
    """
    heads, rows, columns = x.shape
    padded = F.pad(x, (0, rows))
    width = columns + rows
    slanted = padded.as_strided((heads, rows, width - 1), (rows * width, width - 1, 1))
    return slanted.sum(dim=1)
