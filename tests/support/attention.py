"""Schemes, position ids and a watch on memory, for tests of attention."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

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
