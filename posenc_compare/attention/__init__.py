"""Attention through the hooks, on the fastest path that is exact.

`Session` is a forward pass of a model, and `attention` one layer of it. Either asks the
scheme for what it adds and takes the first of these paths that serves the call:

- fused: nothing is added, no mask or plain causal; on CPUs from 16 keys.
- strided: the bias depends on the offset alone, and positions are consecutive.
- dense: anything pointwise, if products with later keys stay finite.
- plain: whole rows of logits or the values change; the reference.

`flex`, for anything pointwise, runs only if it is asked for.
"""

from typing import Literal

from torch import Tensor

from posenc_compare.attention.backends import Path
from posenc_compare.attention.layer import Explanation, Step, logits
from posenc_compare.attention.mask import CAUSAL, Mask
from posenc_compare.attention.parts import merge
from posenc_compare.attention.plan import Plan
from posenc_compare.attention.session import Session
from posenc_compare.schemes.scheme import Scheme

__all__ = [
    "CAUSAL",
    "Explanation",
    "Mask",
    "Path",
    "Session",
    "attention",
    "attention_logits",
    "attention_with_lse",
    "explain",
    "merge",
]


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scheme: Scheme,
    positions: Tensor,
    key_positions: Tensor | None = None,
    mask: Mask = CAUSAL,
    state: Tensor | None = None,
    placed: Tensor | None = None,
    key_placed: Tensor | None = None,
    path: Path | Literal["auto"] = "auto",
) -> Tensor:
    """Attend from queries to keys under a positional scheme.

    While decoding, the queries are the last tokens of the keys: pass all keys as
    projected, with `key_positions`, and the state of all keys.

    Keys belong to another text if `mask` has `query_segments`, or if the positions
    of the queries are not those of the last keys.

    The hooks `positions`, `draw` and `embed` are not called. A scheme that reads the
    size of an image takes every image for one of the trained size; a `Session` tells
    it the size.

    Args:
        q: `(batch, heads, query, head_dim)` queries, as projected.
        k: `(batch, key_heads, key, head_dim)` keys, as projected. `key_heads` must
            divide `heads`: a group of query heads shares a key head.
        v: `(batch, key_heads, key, value_dim)` values.
        scheme: the positional scheme.
        positions: `(query,)` or `(batch, query)` position of each query, whole or real
            numbers.
        key_positions: the same for keys; may be left out if there are as many keys
            as queries.
        mask: which keys a query may look at.
        state: `(batch, key, ...)` result of `scheme.token_state`.
        placed: `(query,)` or `(batch, query)` bool, False for a query without a
            position, such as a class or register token: its id is not read, it is
            not rotated, and no bias is added to its logits. None: all have one.
        key_placed: the same for keys, beside `key_positions`.
        path: force a path; `auto` takes the fastest that serves.

    Returns:
        `(batch, heads, query, value_dim)` in the dtype of `v`; 0 where a query sees no
        key.

    Raises:
        ShapeError: if sizes or position ids do not fit together.
        ConfigError: if the scheme needs a causal mask, or a position for every token,
            or the path cannot serve it, or scheme or mask have no meaning where keys
            are another text.

    Example:
        >>> import torch
        >>> from posenc_compare.schemes import create
        >>> q, k, v = torch.randn(3, 2, 8, 100, 64)  # of two texts, in eight heads
        >>> scheme = create("alibi", heads=8, head_dim=64)
        >>> attention(q, k, v, scheme=scheme, positions=torch.arange(100)).shape
        torch.Size([2, 8, 100, 64])
    """
    plan = Plan(positions, key_positions, mask, placed=placed, key_placed=key_placed)
    return Step(plan, scheme, 0, q, k, v, state).attend(path)


def attention_with_lse(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scheme: Scheme,
    positions: Tensor,
    key_positions: Tensor | None = None,
    mask: Mask = CAUSAL,
    state: Tensor | None = None,
    placed: Tensor | None = None,
    key_placed: Tensor | None = None,
    path: Path | Literal["auto"] = "auto",
) -> tuple[Tensor, Tensor]:
    """Return what `attention` does, and the log-sum-exp of the logits of each query.

    `merge` combines outputs over parts of the keys into the output over all keys.
    Args are those of `attention`. On every path, the log-sum-exp costs one more
    product of queries and keys, written out for 512 queries at a time. Both results
    have gradients.

    Returns:
        `(batch, heads, query, value_dim)` in the dtype of `v`, and
        `(batch, heads, query)` in float32 or wider; 0 and -inf where a query sees no
        key.

    Raises:
        ShapeError: as `attention`.
        ConfigError: as `attention`, or if the scheme replaces the softmax, has a token
            state, or makes queries, keys or logits depend on the other keys.
    """
    plan = Plan(positions, key_positions, mask, placed=placed, key_placed=key_placed)
    return Step(plan, scheme, 0, q, k, v, state).attend_with_lse(path)


def attention_logits(
    q: Tensor,
    k: Tensor,
    *,
    scheme: Scheme,
    positions: Tensor,
    key_positions: Tensor | None = None,
    mask: Mask = CAUSAL,
    state: Tensor | None = None,
    placed: Tensor | None = None,
    key_placed: Tensor | None = None,
) -> Tensor:
    """Return the logits that `attention` would take the softmax of.

    Args and errors are those of `attention`.

    Returns:
        `(batch, heads, query, key)`, -inf where a query may not look.
    """
    plan = Plan(positions, key_positions, mask, placed=placed, key_placed=key_placed)
    return logits(plan, plan.call(scheme, 0, q, k, state), scheme)


def explain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scheme: Scheme,
    positions: Tensor,
    key_positions: Tensor | None = None,
    mask: Mask = CAUSAL,
    state: Tensor | None = None,
    placed: Tensor | None = None,
    key_placed: Tensor | None = None,
) -> Explanation:
    """Return which path `attention` would take, and why it would take no other.

    Args and errors are those of `attention`.
    """
    plan = Plan(positions, key_positions, mask, placed=placed, key_placed=key_placed)
    return Step(plan, scheme, 0, q, k, v, state).explain()
