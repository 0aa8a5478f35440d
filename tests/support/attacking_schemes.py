"""A plugin whose schemes try to end a run, to spoil a neighbour, or to be believed."""

import json
import os
import random
import sys
import threading
import time
import warnings
from typing import Any

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, NoCodeError, ShapeError, StoreError
from posenc_compare.schemes import Geometry, Scheme, register
from posenc_compare.train.checkpoints import Stopped

ERRORS = {
    "store": StoreError,
    "stopped": Stopped,
    "config": ConfigError,
    "shape": ShapeError,
    "no_code": NoCodeError,
}


def found(name: str) -> Any:
    """Return a local variable of a function that called this one."""
    frame = sys._getframe()
    while frame.f_back and name not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals[name]


def say(text: str) -> None:
    """Answer in place of the worker, and exit as if all were well."""
    with os.fdopen(found("answer"), "wb") as file:
        file.write(text.encode())
    os._exit(0)


def answer(**changes: Any) -> str:
    """Return an answer that is right but for some changes."""
    right = found("cell").record().to_json() | {"status": "ok", "error": ""}
    right |= {"quantities": {}, "rows": [], "provenance": {"seconds": 1.0}}
    return json.dumps({"record": {**right, **changes}})


LIES = {
    "long": lambda: answer(trace=["x" * ((1 << 24) - len(answer(trace=[""])) + 60)]),
    "says_stopped": lambda: json.dumps({"stopped": True}),
    "says_nothing": lambda: "null",
}
DEEDS = {"realtime": lambda: os.kill(os.getpid(), 40)}


@register("evil", family="absolute")
class Evil(Scheme):
    """Raise, die or lie at the call of a hook."""

    def __init__(self, geometry: Geometry, *, how: str = "") -> None:
        super().__init__(geometry)
        self.how = how

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        if self.how in ERRORS:
            raise ERRORS[self.how](f"{self.how} of mine")
        DEEDS[self.how]() if self.how in DEEDS else say(LIES[self.how]())
        return x


@register("refuses", family="absolute")
class Refuses(Scheme):
    """Say at once that it cannot serve the setting."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        raise ConfigError("refuses: length must be 7")


@register("meddles", family="absolute")
class Meddles(Scheme):
    """Change the process while it is built."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        torch.set_default_dtype(torch.float16)
        torch.set_num_threads(3)
        torch.manual_seed(3)
        torch.set_float32_matmul_precision("medium")
        torch.backends.mkldnn.set_flags(False)
        random.seed(3)
        os.environ["LANG"] = "x"
        torch.set_autocast_enabled("cpu", True)
        warnings.simplefilter("error")
        sys.path.clear()
        os.chdir("/")

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        torch.set_default_device("meta")
        return x


@register("lingers", family="absolute")
class Lingers(Scheme):
    """Leave a thread behind, which nobody can end."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        return x + positions[..., None].to(x.dtype)
