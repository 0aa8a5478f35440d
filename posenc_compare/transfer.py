"""Bring tensors of the CPU to a GPU without making the host wait for it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class Sent:
    """What a function sends in its first run, kept for its next ones.

    A recording of the function must not hold copies from memory of the host. So from
    the second run on it is given what was sent before, if it sends the same.

    Attributes:
        differs: whether a later run sent something else.
        only: refuse to send something else.
    """

    def __init__(self) -> None:
        self.differs = False
        self.only = False
        self._kept: list[tuple[Tensor, Tensor]] = []
        self._begun = False
        self._next: int | None = None  # None in the first run

    def begin(self) -> None:
        """Begin another run, or the first."""
        self._next = 0 if self._begun else None
        self._begun = True

    def get(self, x: Tensor, device: torch.device) -> Tensor:
        """Return a tensor on a device, sent now or before.

        Raises:
            RuntimeError: if it was not sent before, and only that is allowed.
        """
        number = self._next
        if number is not None:
            self._next = number + 1
            if number < len(self._kept):
                before, there = self._kept[number]
                same = (x.dtype, x.shape) == (before.dtype, before.shape)
                if same and there.device.type == device.type and torch.equal(x, before):
                    return there
            self.differs = True
            if self.only:
                raise RuntimeError("another tensor is sent than in the steps before")
            return _copied(x, device)
        there = _copied(x, device)
        self._kept.append((x.clone(), there))
        return there


_remembered: Sent | None = None


@contextmanager
def remembering(sent: Sent) -> Iterator[None]:
    """Keep what is sent meanwhile, or give it back if it was sent before."""
    global _remembered
    sent.begin()
    _remembered = sent
    try:
        yield
    finally:
        _remembered = None


def sent(x: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device.

    The host would wait for all work of a GPU before a copy from memory that the system
    may page out; so that is pinned first.
    """
    if _remembered is not None and x.device.type == "cpu":
        return _remembered.get(x, device)
    return _copied(x, device)


def _copied(x: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda" and x.device.type == "cpu":
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)
