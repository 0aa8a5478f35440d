"""Schemes, position ids, inputs and a watch on memory, for tests of attention."""

from collections.abc import Sequence
from typing import Any

import torch
from schemes.tools import normal
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from posenc_compare.attention import Session, explain
from posenc_compare.schemes import Scheme, create


def make(
    name: str, *, heads: int = 2, width: int = 8, length: int = 64, **options: Any
) -> Scheme:
    """Build a scheme in float64, always with the same initial values."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        scheme = create(
            name, options=options, model_dim=heads * width, heads=heads, length=length
        )
    return scheme.double()


def ids_for(scheme: Scheme, count: int, start: int = 0, columns: int = 4) -> Tensor:
    """Return ids that count from `start`; on several axes, those of a grid's cells."""
    ids, more = torch.arange(count) + start, scheme.facts.axes - 1
    return torch.stack([ids // columns, *[ids % columns] * more], -1) if more else ids


def inputs(scheme: Scheme, count: int) -> dict[str, Any]:
    """Return float64 queries, keys and values of two sequences."""
    sizes = scheme.geometry
    q, k, v = normal(3, 2, sizes.heads, count, sizes.head_dim)
    return {"q": q, "k": k, "v": v}


def serving(**given: Any) -> list[Any]:
    """Return `auto`, and each other path that serves in its place."""
    others = explain(**given).others.items()
    return ["auto", *(name for name, why in others if why.endswith("comes first"))]


def decoded(
    session: Session,
    steps: Sequence[int],
    heads: Sequence[Tensor],
    x: Tensor | None = None,
) -> Tensor:
    """Return the output of a session that is fed some tokens at a time.

    Args:
        session: with `fed=0` and a cache.
        steps: how many tokens each pass adds.
        heads: queries, keys and values of all tokens.
        x: the input of the layer, of all tokens.
    """
    outs = []
    for step in steps:
        session.extend(step)
        new = slice(session.start, session.end)
        given = [part[:, :, new] for part in heads]
        state = {} if x is None else {"x": x[:, new]}
        if x is not None:
            session.embed(x[:, new])
        outs.append(session.attend(0, *given, **state))
    return torch.cat(outs, dim=2)


class LargestStorage(TorchDispatchMode):
    """Remember the most bytes behind any tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, Tensor):
                self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
        return out
