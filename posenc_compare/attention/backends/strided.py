"""The path of offset biases on runs of positions: the bias is a view of one vector.

With `n` queries, the bias of query i and key j is `values[head, j - i + n - 1]`. Down
the rows that index falls, and torch has no negative strides: so the rows of a block are
taken in reverse, and the bias becomes a view with strides (1, 1).

Keys that a bias lowers so far that their weight is exactly 0 are left out, see `reach`.
"""

import math
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.attention import kernel
from posenc_compare.attention.request import Request

QUERIES = 512  # query rows per block
STEP = 512  # keys that torch's kernel for CPUs takes at a time
BACKWARD_BLOCK = 128  # the same where all logits of a block are written out


def serves(request: Request) -> str:
    """Return nothing if the path serves a request, or else why not."""
    scheme, call = request.scheme, request.call
    if reason := request.whole_rows():
        return reason
    if call.q_positions.is_floating_point():
        return "positions are real numbers"
    if call.q_placed is not None:
        return "some tokens may have no position"
    if request.vector is None:
        return f"{scheme.name} adds no bias of the offset"
    if scheme.acts_at("pair_bias"):
        return f"{scheme.name} adds more than a bias of the offset"
    if call.segments is not None or call.has_prefix:
        return "segments and a prefix are no function of the offset"
    if request.q.is_cuda and request.vector.values.requires_grad:
        return "on a GPU dense is faster with a trained bias"
    if not request.plan.in_step:
        return "positions are no runs, or start apart from sequence to sequence"
    return ""


def run(request: Request) -> Tensor:
    """Read the bias of each block of rows as a view of the offset vector."""
    assert request.vector is not None
    call = request.call
    values = request.vector.values.to(request.mask_dtype())
    apart = torch.arange(values.shape[1], device=values.device) - call.sizes[1] + 1
    if call.causal:
        values = values.masked_fill(apart > 0, -math.inf)
    if call.window is not None:
        values = values.masked_fill(apart.abs() >= call.window, -math.inf)
    inputs = (request.q, *request.whole_heads(), values.contiguous())
    if values.requires_grad:
        return StridedBias.apply(*inputs, request.scale, call.causal)
    return attend_in_blocks(*inputs, request.scale, call.causal)


def _blocks(
    queries: int, keys: int, causal: bool, rows: int
) -> Iterator[tuple[int, int, int]]:
    """Yield first row, last row + 1 and number of keys seen, for blocks of `rows`."""
    for start in range(0, queries, rows):
        stop = min(start + rows, queries)
        yield start, stop, keys - queries + stop if causal else keys


def _reversed_bias(values: Tensor, rows: int, seen: int, skipped: int) -> Tensor:
    """View the bias of a block, last row first, as `(1, heads, rows, seen)`."""
    size, strides = (1, values.shape[0], rows, seen), (0, values.stride(0), 1, 1)
    return values[:, skipped:].as_strided(size, strides)


def attend_in_blocks(
    q: Tensor, k: Tensor, v: Tensor, values: Tensor, scale: float, causal: bool
) -> Tensor:
    """Return the output `(batch, heads, query, value_dim)`, block by block of rows."""
    queries, keys = q.shape[2], k.shape[2]
    skips = causal and queries > QUERIES and q.numel() > 0 and _may_skip(q)
    reaches = reach(q, k, v, values, scale) if skips else [keys] * q.shape[1]

    def attend(start: int, stop: int, first: int, last: int, heads: slice) -> Tensor:
        bias = _reversed_bias(values[heads], stop - start, last, queries - stop)
        part = kernel.attend(
            q[:, heads, start:stop].flip(2),
            k[:, heads, first:last],
            v[:, heads, first:last],
            scale,
            attn_mask=bias[..., first:],
        )
        return part.flip(2)

    parts = []
    for start, stop, seen in _blocks(queries, keys, causal, QUERIES):
        own = seen - (stop - start)  # the key of the first query, if causal
        firsts = [max(0, own - far + 1) // STEP * STEP for far in reaches]
        alike = groupby(range(len(firsts)), key=firsts.__getitem__)
        runs = [(first, list(heads)) for first, heads in alike]
        rows = [
            attend(start, stop, first, seen, slice(heads[0], heads[-1] + 1))
            for first, heads in runs
        ]
        parts.append(torch.cat(rows, dim=1))
    return torch.cat(parts, dim=2)


def _may_skip(x: Tensor) -> bool:
    """Return whether to look at numbers before keys are chosen, which is a wait."""
    return not (x.is_cuda or torch.is_grad_enabled() or torch.compiler.is_compiling())


def reach(q: Tensor, k: Tensor, v: Tensor, values: Tensor, scale: float) -> list[int]:
    """Return, for each head, how many keys back from a query's own may have a weight.

    A logit lies at most `|q| |k| scale` from its bias, that of the own key too. So a
    key whose bias is lower than that of the own key by more than twice this, and by the
    logarithm of the least number that is not 0, has a weight of exactly 0.

    Returns:
        Counts from 1, the own key, to all keys: all where `v` is not finite, since 0
        times infinity is no number.
    """
    keys, kind = k.shape[2], torch.finfo(values.dtype)
    longest = [
        torch.linalg.vector_norm(x, dim=-1, dtype=values.dtype).amax(dim=(0, 2))
        for x in (q, k)
    ]
    most = 1.01 * scale * longest[0] * longest[1]  # 1 %: products are rounded
    gap = 2 * most - math.log(kind.tiny) - math.log(kind.eps) + 1
    highest = values[:, :keys].cummax(dim=1).values  # of a key and all before it
    needed = ~(highest < values[:, keys - 1 : keys] - gap[:, None])
    try:
        return (needed | ~v.isfinite().all()).sum(dim=1).tolist()
    except RuntimeError:  # under `vmap` there are no numbers to look at
        return [keys] * q.shape[1]


class StridedBias(torch.autograd.Function):
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
        return attend_in_blocks(q, k, v, values.detach(), scale, causal)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.scale, ctx.causal = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        saved = ctx.saved_tensors  # once: a checkpoint gives them one time only
        q, k, v, values, out = (t.to(saved[3].dtype) for t in saved)
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
        types = [t.dtype for t in saved[:3]]
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
