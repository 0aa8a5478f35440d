"""What the hooks of a scheme must return, checked where they are called."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, HookError
from posenc_compare.schemes.scheme import HOOKS, Call, Scheme
from posenc_compare.validate import CLOSE, near

NEARER = 0.85  # than other names, of a name that is misspelt
AXES = {
    "embed": "(batch, seq, model_dim)",
    "query": "(batch, heads, query, head_dim)",
    "key": "(batch, heads, key, head_dim)",
    "offset_bias": "(heads, offset)",
    "pair_bias": "(batch, heads, query, key)",
    "scores": "(batch, heads, query, key)",
    "weights": "(batch, heads, query, key)",
    "values": "(batch, heads, query, head_dim)",
}


def misspelt_hook(scheme: type[Scheme]) -> str:
    """Return which method of a scheme has nearly the name of a hook, or nothing.

    If the scheme overrides other hooks, the method may be a helper, so its name must be
    closer.
    """
    own = [n for n in dir(scheme) if n[0] != "_" and not hasattr(Scheme, n)]
    free = [h for h in HOOKS if getattr(scheme, h) is getattr(Scheme, h)]
    close = CLOSE if len(free) == len(HOOKS) else NEARER
    meant = [(n, hooks[0]) for n in own if (hooks := near(n, free, close))]
    return "`{}` looks like `{}`".format(*meant[0]) if meant else ""


def schemes_for_length(
    schemes: Sequence[Scheme], length: int
) -> dict[str, list[Scheme]]:
    """Return, by name, the lists of schemes that may replace `schemes` at a length.

    A scheme that offers none of a name stays itself in that list.
    """
    offered = [scheme.schemes_for_length(length) for scheme in schemes]
    names = dict.fromkeys(name for others in offered for name in others)
    pairs = list(zip(schemes, offered, strict=True))
    return {name: [of.get(name, own) for own, of in pairs] for name in names}


def call_hook(scheme: Scheme, hook: str, *given: Tensor, call: Call | None) -> Any:
    """Return what a hook returns, which is given the call if it asks for it."""
    more = (call,) if hook in scheme.asks_call else ()
    try:
        return getattr(scheme, hook)(*given, *more)
    except ConfigError as error:
        raise error.of(scheme.name) from error


def ask(
    scheme: Scheme, hook: str, x: Tensor, positions: Tensor, call: Call | None = None
) -> Tensor:
    """Return what `embed`, `query` or `key` makes of `x`, in the dtype of `x`.

    Queries and keys have as many times more channels as the facts of the scheme say.
    """
    got = call_hook(scheme, hook, x, positions, call=call)
    times = 1 if hook == "embed" else scheme.facts.widens
    check_returned(scheme, hook, got, (*x.shape[:-1], times * x.shape[-1]), x)
    fault = ""
    if x.requires_grad and not got.requires_grad and torch.is_grad_enabled():
        fault = "with the gradient of its input, got one without"
    elif got.requires_grad and not x.requires_grad:
        if not any(parameter.requires_grad for parameter in scheme.parameters()):
            fault = "without a gradient of its own, got one that is no parameter's"
    if fault:
        raise HookError(f"{scheme.name}: {hook} must return a tensor {fault}")
    return got.to(x.dtype)


def ask_offsets(
    scheme: Scheme, offsets: Tensor, heads: int, call: Call | None = None
) -> Tensor | None:
    """Return the offset bias `(heads, offset)`, or None."""
    values = call_hook(scheme, "offset_bias", offsets, call=call)
    if values is not None:
        shape = (heads, len(offsets))
        like = offsets.float() if offsets.is_floating_point() else offsets
        check_returned(scheme, "offset_bias", values, shape, like)
    return values


def ask_scale(scheme: Scheme, head_dim: int) -> float:
    """Return the factor of every product of query and key."""
    got: object = scheme.scale(head_dim)
    if (
        isinstance(got, int | float)
        and not isinstance(got, bool)
        and 0 < got < math.inf
    ):
        return got
    raise _hook_error(scheme, "scale", "a finite positive number", got)


def ask_positions(
    scheme: Scheme, ids: Tensor, generator: torch.Generator | None
) -> Tensor:
    """Return where a scheme places tokens, in the shape of their ids."""
    got: object = scheme.positions(ids, generator)
    if isinstance(got, Tensor) and got.shape == ids.shape:
        if not got.is_complex() and got.dtype != torch.bool:
            return got
    raise _hook_error(scheme, "positions", f"{tuple(ids.shape)}", got)


def ask_draw(
    scheme: Scheme, ids: Tensor, generator: torch.Generator | None
) -> Tensor | None:
    """Return what a scheme draws for a pass."""
    got: object = scheme.draw(ids, generator)
    if got is None or isinstance(got, Tensor):
        return got
    raise _hook_error(scheme, "draw", "a tensor or None", got)


def ask_state(
    scheme: Scheme, x: Tensor, past: Tensor | None, keys: int
) -> Tensor | None:
    """Return the state of all tokens so far, `(batch, keys, ...)`, or None."""
    got: object = scheme.token_state(x, past)
    if got is None or (isinstance(got, Tensor) and got.shape[:2] == (len(x), keys)):
        return got
    wanted = f"({len(x)}, {keys}, ...) or None"
    raise _hook_error(scheme, "token_state", wanted, got)


def _hook_error(scheme: Scheme, hook: str, wanted: str, got: object) -> HookError:
    """Return the error of a hook that returned anything else."""
    if isinstance(got, Tensor):
        found = f"{tuple(got.shape)} of {got.dtype}"
    else:
        found = f"{type(got).__name__} {got!r:.40}"
    return HookError(f"{scheme.name}: {hook} must return {wanted}, got {found}")


def check_returned(
    scheme: Scheme, hook: str, got: object, shape: Sequence[int], like: Tensor
) -> None:
    """Check shape, dtype, device and layout of a hook's result.

    Nothing is broadcast or rounded silently.

    Args:
        scheme: whose hook it is.
        hook: what was called.
        got: what it returned.
        shape: it must have, with the axes of `AXES`.
        like: tensor on the right device; if it is of floating point, the least
            exact dtype.
    """
    least = like.dtype if like.is_floating_point() else None
    if not isinstance(got, Tensor):
        found = type(got).__name__
    elif got.shape != torch.Size(shape):
        found = str(tuple(got.shape))
    elif got.device != like.device:
        found = f"it on {got.device} and not on {like.device}"
    elif got.layout != torch.strided:
        found = f"{got.layout} and not {torch.strided}"
    elif not got.is_floating_point():
        found = f"{got.dtype} and not floating point"
    elif least and torch.promote_types(got.dtype, least) != got.dtype:
        found = f"{got.dtype} and not {least} or wider"
    else:
        return
    raise HookError(
        f"{scheme.name}: {hook} must return {AXES[hook]} {tuple(shape)}, got {found}"
    )
