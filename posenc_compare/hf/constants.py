"""Buffers and factors of a model, beside those of the class of its configuration.

The class is built without weights, so a model may be of any size.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from posenc_compare.hf.candidates import length_limits
from posenc_compare.hf.readings import Compared, NotApplicableError
from posenc_compare.hf.stated import kind_of, largest

FACTOR = "scal"  # in the name of a factor: scaling, attention_scaling, softmax_scale


def constants(model: Any) -> Compared:
    """Compare numbers of the modules that a model shares with its class."""
    kind = kind_of(model)
    if kind is None:
        raise NotApplicableError("transformers has no class of its configuration")
    if length_limits(model.config):
        raise NotApplicableError("rotates otherwise in longer texts")
    with torch.device("meta"):
        stock = kind._from_config(copy.deepcopy(model.config))
    own, found = dict(model.named_modules()), []
    for path, module in stock.named_modules():
        _fill_buffers(module, stock)
        mine = _numbers(own[path]) if path in own else {}
        for name, wanted in _numbers(module).items():
            made = mine.get(name)
            if made is not None and made.shape == wanted.shape:
                found.append(_apart(f"{path}.{name}", made, wanted))
    return largest(found, "shares no buffers or factors with its class")


def _apart(path: str, made: Tensor, wanted: Tensor) -> tuple[float, str]:
    """Return the largest relative difference, and the numbers that differ most."""
    same = (made == wanted) | wanted.isnan()
    off = ((made - wanted).abs() / wanted.abs()).masked_fill(same, 0)
    at = int(off.argmax())
    return float(off[at]), f"{path}: {made[at]:.6g}, expected {wanted[at]:.6g}"


def _fill_buffers(module: nn.Module, model: Any) -> None:
    """Compute the buffers of a module without weights; NaN if it has no rule."""
    if module._buffers and not module._parameters:
        module.to_empty(device="cpu", recurse=False)
        for buffer in module.buffers(recurse=False):
            if buffer.is_floating_point():
                buffer.fill_(torch.nan)
        model._init_weights(module)


def _numbers(module: nn.Module) -> dict[str, Tensor]:
    """Return the buffers and factors of a module as `(number,)`, by name."""
    found = {
        name: buffer
        for name, buffer in module.named_buffers(recurse=False)
        if buffer.is_floating_point() and not buffer.is_meta and buffer.numel()
    }
    for name, value in vars(module).items():
        if FACTOR in name and type(value) is float:
            found[name] = torch.tensor([value])
    return {n: one.detach().cpu().double().flatten() for n, one in found.items()}
