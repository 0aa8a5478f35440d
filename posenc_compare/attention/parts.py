"""Attention to keys in parts, as in a ring of devices or a cache that is split.

Each part gives its output and the log-sum-exp of its logits. The output over all keys
is the mean of the outputs, weighted by the exponentials of these numbers: the softmax,
in two steps.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Scheme


def merge(parts: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return output and log-sum-exp over all keys, from those over parts of them.

    Merged parts can be merged again. The order of parts changes nothing but rounding.

    Args:
        parts: what `attention_with_lse` returned for the same queries and other keys:
            outputs `(batch, heads, query, value_dim)` and log-sum-exps
            `(batch, heads, query)`. A part in which a query sees no key, with -inf,
            changes nothing for that query.

    Returns:
        `(batch, heads, query, value_dim)`, 0 where a query sees no key in any part, and
        `(batch, heads, query)`, -inf there.

    Raises:
        ConfigError: if there is no part.
        ShapeError: if a part is no such pair, or shapes differ between parts.

    Example:
        >>> import torch
        >>> from posenc_compare.attention import Mask, attention, attention_with_lse
        >>> from posenc_compare.schemes import create
        >>> scheme = create("alibi", heads=8, head_dim=64)
        >>> q, k, v = torch.randn(3, 2, 8, 100, 64)
        >>> ids, both = torch.arange(100), Mask(causal=False)
        >>> parts = [
        ...     attention_with_lse(
        ...         q,
        ...         k[:, :, part],
        ...         v[:, :, part],
        ...         scheme=scheme,
        ...         positions=ids,
        ...         key_positions=ids[part],
        ...         mask=both,
        ...     )
        ...     for part in (slice(0, 60), slice(60, 100))
        ... ]
        >>> out, lse = merge(parts)
        >>> whole = attention(q, k, v, scheme=scheme, positions=ids, mask=both)
        >>> torch.allclose(out, whole, atol=1e-6)
        True
    """
    parts = list(parts)
    if not parts:
        raise ConfigError("merge: parts must be at least one, got 0")
    for part in parts:
        _check_part(part, parts[0])
    outs, lses = zip(*parts, strict=True)
    each = torch.stack(lses)
    whole = torch.logsumexp(each, dim=0)
    # Where no part has a key, all are -inf, and their difference would be no number.
    weights = (each - whole.masked_fill(whole == -torch.inf, 0)).exp()
    out = (torch.stack(outs).to(each.dtype) * weights[..., None]).sum(dim=0)
    return out.to(outs[0].dtype), whole


def _check_part(part: object, first: object) -> None:
    """Raise `ShapeError` if a part is no pair, or differs in shape from the first."""
    shapes = _shapes(part)
    if len(shapes) != 2 or shapes[0][:-1] != shapes[1] or shapes != _shapes(first):
        got = " and ".join(map(str, shapes)) or type(part).__name__
        raise ShapeError(
            f"merge: each part must be (output, lse) of attention_with_lse, with the "
            f"shapes (..., query, value_dim) and (..., query) of the first part, got "
            f"{got}; merge([attention_with_lse(...), ...]) would work"
        )


def _shapes(part: object) -> list[tuple[int, ...]]:
    """Return the shapes of a tuple of tensors; none for anything else."""
    items = part if isinstance(part, tuple | list) else ()
    return [tuple(x.shape) for x in items if isinstance(x, Tensor)]


def check_parts(scheme: Scheme) -> None:
    """Raise `ConfigError` if attention to parts of the keys cannot be merged."""
    schemes = [part for part in scheme.modules() if isinstance(part, Scheme)]
    found = ""
    if scheme.acts_at("weights"):
        found = "weights other than the softmax"
    elif scheme.acts_at("token_state"):
        found = "a token state"
    elif any(_looks_at_other_keys(part) for part in schemes):
        found = "queries or keys changed by the other keys"
    elif any(one.facts.by_order and one.acts_at("scores") for one in schemes):
        found = "logits changed by the other keys"
    if found:
        raise ConfigError(
            f"{scheme.name}: must have a softmax of logits that depend on one key "
            f"each, got {found}; rope would work"
        )


def _looks_at_other_keys(part: Scheme) -> bool:
    """Return whether queries and keys may depend on the other keys of the call."""
    return part.family == "contextual" and bool(part.asks_call & {"query", "key"})
