"""Bring tensors of the CPU to a GPU without making the host wait for it."""

import torch
from torch import Tensor


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device.

    The host would wait for all work of a GPU before a copy from memory that the system
    may page out; so that is pinned first.
    """
    waits = device.type == "cuda" and x.device.type == "cpu"
    if waits and not torch.compiler.is_compiling():  # a graph can pin no memory
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)
