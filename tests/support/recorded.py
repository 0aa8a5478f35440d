"""Recordings on the CPU that do what CUDA graphs do, so that a test can see them.

A recording keeps every operation with the very tensors that it read and wrote. What was
a number of Python then stays that number, what was in memory of the host stays as it
was, and a replay writes into the memory of the first time. While it is recorded nothing
is computed, as far as tensors from outside can tell, and no number is read from one,
but for whole ones. On a GPU reads of whole numbers that were sent there are refused
too, which this does not see: position ids lie on the CPU where there is a GPU too.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posenc_compare.analysis.training.captured import Recording

READS = (torch.ops.aten._local_scalar_dense.default,)


class Recorder(TorchDispatchMode):
    """Keeps all operations, and what they wrote over that was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, list[Tensor]]] = []
        self.before: dict[int, tuple[Tensor, Tensor]] = {}
        self.made: set[int] = set()  # places in memory

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in READS and args[0].is_floating_point():
            raise RuntimeError("operation not permitted when stream is capturing")
        given = tensors((args, kwargs or {}))
        for tensor in given if func._schema.is_mutable else ():
            place = storage(tensor)
            if place not in self.made and place not in self.before:
                memory = tensor.untyped_storage()
                whole = torch.empty(0, dtype=tensor.dtype).set_(memory)
                self.before[place] = whole, whole.clone()
        out = func(*args, **kwargs or {})
        known = {storage(tensor) for tensor in given}
        new = [t for t in tensors(out) if storage(t) not in known]
        self.made |= {storage(tensor) for tensor in new}
        self.calls.append((func, args, kwargs or {}, tensors(out)))
        return out

    def restore(self) -> None:
        """Put back what was there before."""
        for whole, before in self.before.values():
            whole.copy_(before)

    def replay(self) -> None:
        """Do all operations again, into the memory of the first time."""
        with torch.no_grad():
            for func, args, kwargs, made in self.calls:
                known = {storage(tensor) for tensor in tensors((args, kwargs))}
                again = tensors(func(*args, **kwargs))
                for old, new in zip(made, again, strict=True):
                    if storage(old) not in known:
                        old.detach().copy_(new)


class Unread(TorchDispatchMode):
    """Refuses to read a number from a tensor, for which the host would wait."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in READS and args[0].is_floating_point():
            raise RuntimeError("called a synchronizing CUDA operation")
        return func(*args, **kwargs or {})


class Recordings:
    """What records functions on the CPU."""

    def __init__(self) -> None:
        self.recorded = 0

    def warming(self, *, strict: bool = False) -> AbstractContextManager[object]:
        return Unread() if strict else nullcontext()

    def record(self, part: Callable[[], object]) -> Recording:
        recorder = Recorder()
        with recorder:
            made = part()
        recorder.restore()
        self.recorded += 1
        return Recording(recorder.replay, made)


def tensors(tree: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
