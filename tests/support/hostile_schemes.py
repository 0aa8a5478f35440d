"""A plugin whose schemes do what no scheme must; each option is one fault."""

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from posenc_compare.schemes import Call, Geometry, Scheme, register


def log(**facts: Any) -> None:
    """Add a line to the file that the test named, if it named one."""
    if place := os.environ.get("POSENC_TEST_LOG"):
        with Path(place).open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), "time": time.time(), **facts}))
            file.write("\n")


log(imported=__name__)


class Own(BaseException):
    """An exception that no `except Exception` sees."""


class MuteError(ValueError):
    """An exception without a message."""

    def __str__(self) -> str:
        raise ValueError("no")


class MuteRuntimeError(RuntimeError):
    """The same, of the kind that torch raises when memory is out."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


def fall(depth: int) -> None:
    if depth:
        fall(depth - 1)
    raise ValueError(f"at the bottom of {Path.home()}/secret/file.txt")


FAULTS: dict[str, Any] = {
    "value": lambda: fall(0),
    "deep": lambda: fall(60),
    "long": lambda: (_ for _ in ()).throw(ValueError("x" * 50_000)),
    "exit": lambda: sys.exit(0),
    "interrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt()),
    "own": lambda: (_ for _ in ()).throw(Own("mine")),
    "unprintable": lambda: (_ for _ in ()).throw(MuteError()),
    "unprintable_runtime": lambda: (_ for _ in ()).throw(MuteRuntimeError()),
}


@register("raises", family="absolute")
class Raises(Scheme):
    """Raise in the constructor or in a hook."""

    def __init__(
        self,
        geometry: Geometry,
        *,
        what: str = "value",
        where: Literal["init", "hook"] = "hook",
    ) -> None:
        super().__init__(geometry)
        self.what = what
        if where == "init":
            FAULTS[what]()

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        FAULTS[self.what]()
        return x


BENDS: dict[str, Any] = {
    "right": lambda x: x,
    "strided": lambda x: x.mT.contiguous().mT,
    "scalar": lambda x: x.mean(),
    "column": lambda x: x.flatten()[: x.shape[-2], None],
    "row": lambda x: x.flatten()[None, : x.shape[-1]],
    "short": lambda x: x[..., :-1],
    "meta": lambda x: x.to("meta"),
    "sparse": lambda x: x.to_sparse(),
    "whole": lambda x: x.long(),
    "bool": lambda x: x > 0,
    "complex": lambda x: torch.complex(x, x),
    "none": lambda x: None,
    "tuple": lambda x: (x, x),
    "text": lambda x: "text",
    # Of tensors that go in and come out:
    "narrow": lambda x: x.half(),
    "leaf": lambda x: x.clone().requires_grad_(),
    "detached": lambda x: x.detach(),
}


@register("bent", family="absolute")
class Bent(Scheme):
    """Return from one hook what does not fit, or what does in an odd layout."""

    def __init__(
        self, geometry: Geometry, *, hook: str = "embed", returned: str = "right"
    ) -> None:
        super().__init__(geometry)
        self.hook = hook
        self.bend = BENDS[returned]

    def acts_at(self, hook: str) -> bool:
        return hook == self.hook

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        moved = x + positions[..., None].to(x.dtype)
        return self.bend(moved) if self.hook == "embed" else x

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return self.bend(q * 1.5) if self.hook == "query" else q

    def key(self, k: Tensor, positions: Tensor) -> Tensor:
        moved = k * (1 + positions[..., None, :, None].to(k.dtype))
        return self.bend(moved) if self.hook == "key" else k

    def offset_bias(self, offsets: Tensor) -> Any:
        heads = torch.arange(self.geometry.heads)[:, None] + 1.0
        return self.bend(heads * offsets) if self.hook == "offset_bias" else None

    def pair_bias(self, call: Call) -> Any:
        if self.hook != "pair_bias":
            return None
        return lambda b, h, i, j: self.bend((i - j) * (h + b + 1.0))

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        return self.bend(logits * 2) if self.hook == "scores" else logits


@register("unsteady", family="absolute")
class Unsteady(Scheme):
    """Return what fits for long sequences alone."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        moved = x + positions[..., None].to(x.dtype)
        return moved if x.shape[1] >= 64 else moved[..., :1]


@register("poison", family="absolute")
class Poison(Scheme):
    """Let a number that is none into a training, at one step."""

    def __init__(
        self,
        geometry: Geometry,
        *,
        number: Literal["nan", "inf"] = "nan",
        place: Literal["value", "gradient", "own"] = "value",
        step: int = 0,
    ) -> None:
        super().__init__(geometry)
        self.number, self.place, self.at, self.step = float(number), place, step, 0
        if place == "own":
            self.mine = nn.Parameter(torch.zeros(()))
            self.mine.register_hook(self._poisoned)

    def _poisoned(self, gradient: Tensor) -> Tensor:
        return gradient * self.number if self.step > self.at else gradient

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        step, self.step = self.step, self.step + 1
        if self.at and step <= self.at + 3:
            log(step=step, place=self.place, number=str(self.number))
        if self.place == "own":
            return x + self.mine
        if step != self.at:
            return x
        if self.place == "gradient":
            x = x * 1.0
            x.register_hook(lambda gradient: gradient * self.number)
            return x
        return x + self.number


class Acting(Scheme):
    """Does something to its process in a hook, which `how` names."""

    def __init__(self, geometry: Geometry, *, how: str = "") -> None:
        super().__init__(geometry)
        self.how = how


@register("hangs", family="absolute")
class Hangs(Acting):
    """Never come back."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        log(hangs=self.how)
        if self.how == "deaf":
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
                signal.signal(number, signal.SIG_IGN)
            if not (child := os.fork()):  # in its group, and as deaf
                time.sleep(600)
                os._exit(0)
            log(child=child)
        if self.how == "session":
            os.setsid()
        if self.how == "paused_worker":
            time.sleep(0.5)  # until the worker has reported that the cell began
            os.kill(os.getppid(), signal.SIGSTOP)
        while True:
            time.sleep(1)


@register("dies", family="absolute")
class Dies(Acting):
    """Take the process along."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        log(dies=self.how)
        if self.how == "exit":
            os._exit(0)
        if self.how == "segfault":
            ctypes.string_at(0)
        if self.how == "worker":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        os.kill(os.getpid(), signal.SIGKILL)
        return x


@register("hog", family="absolute")
class Hog(Scheme):
    """Ask for more memory than there is to have."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        log(hog=True)
        torch.empty(1 << 40, dtype=torch.uint8)
        return x


@register("haunts", family="absolute")
class Haunts(Acting):
    """Leave a process that writes on every pipe later, or be there meanwhile."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        how, self.how = self.how, ""
        if how == "waits":
            time.sleep(1)
        elif how and not os.fork():
            if how == "orphan" and os.fork():
                os._exit(0)
            for _ in range(300):
                time.sleep(0.2)
                for descriptor in range(3, 64):
                    with contextlib.suppress(OSError):
                        os.write(descriptor, b"{\n")
            os._exit(0)
        elif how == "orphan":
            os.wait()
        return x


@register("speaks", family="absolute")
class Speaks(Acting):
    """Write where it should not, or leave something behind."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        how, self.how = self.how, ""
        if how == "print":
            for stream in (sys.stdout, sys.stderr):
                stream.write("x" * 5_000_000 + "\n")
                stream.flush()
        elif how == "close":
            os.closerange(0, 256)
        elif how == "fork":
            if not (child := os.fork()):
                time.sleep(600)
                os._exit(0)
            log(child=child)
        return x
