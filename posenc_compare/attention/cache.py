"""Memory of the keys and values that a session keeps from pass to pass."""

from collections.abc import Hashable

import torch
from torch import Tensor

GROWTH = 2  # times as many tokens as there are, for which memory is taken


class Cache:
    """Joins new keys or values to those of earlier passes.

    Without gradients, the new ones are written behind the old ones, so that decoding
    one token copies one. What an earlier pass was given stays as it is.

    Args:
        length: tokens of the whole planned text, beyond which no memory is taken.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._memory: dict[Hashable, Tensor] = {}

    def join(self, name: Hashable, past: Tensor, new: Tensor) -> Tensor:
        """Return `past` and `new`, one behind the other.

        Args:
            name: of the series that grows.
            past: `(batch, heads, key, channel)`, what the last call returned, or those
                of the first pass.
            new: `(batch, heads, new, channel)`.
        """
        if not _writes(past, new):
            return torch.cat([past, new], dim=2)
        start, end = past.shape[2], past.shape[2] + new.shape[2]
        memory = self._memory.get(name)
        if memory is None or not _holds(memory, past, end):
            batch, heads, _, width = past.shape
            room = max(end, min(self.length, GROWTH * end))
            memory = past.new_empty(batch, heads, room, width)
            memory[:, :, :start] = past
            self._memory[name] = memory
        memory[:, :, start:end] = new
        return memory[:, :, :end]


def _writes(past: Tensor, new: Tensor) -> bool:
    """Return whether memory may be written: no graph reads it, and nothing is cast."""
    recorded = torch.is_grad_enabled() or torch.compiler.is_compiling()
    alike = past.dtype == new.dtype and past.device == new.device
    return alike and not recorded and _has_memory(past) and _has_memory(new)


def _has_memory(x: Tensor) -> bool:
    """Return whether a tensor is a plain one, outside of transforms such as vmap."""
    try:
        return type(x) is Tensor and x.data_ptr() >= 0
    except RuntimeError:
        return False


def _holds(memory: Tensor, past: Tensor, end: int) -> bool:
    """Return whether `past` lies in this memory, and more fits behind it."""
    here = memory.data_ptr() == past.data_ptr() and memory.shape[2] >= end
    return here and memory.is_inference() == torch.is_inference_mode_enabled()
