"""A forward pass of a model: what the model and its schemes say to each other."""

from typing import Literal

import torch
from torch import Tensor

from posenc_compare.attention.backends import Path, choose, plain
from posenc_compare.attention.plan import Plan
from posenc_compare.attention.request import Request
from posenc_compare.errors import ShapeError
from posenc_compare.schemes.scheme import Scheme


def attend(
    plan: Plan,
    scheme: Scheme,
    layer: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Tensor | None,
    path: Path | Literal["auto"],
) -> Tensor:
    """Return the output of one layer; `attention` says what comes in."""
    call = plan.call(scheme, layer, q, k, state)
    if v.shape[:3] != k.shape[:3]:
        raise ShapeError(
            f"attention: v must have the batch, heads and keys of k, "
            f"{tuple(k.shape[:3])}, got {tuple(v.shape[:3])}"
        )
    with torch.autocast(q.device.type, enabled=False):
        request = Request.of(scheme, plan, call, v)
        return choose(request, path).run(request)


def logits(
    plan: Plan, scheme: Scheme, layer: int, q: Tensor, k: Tensor, state: Tensor | None
) -> Tensor:
    """Return the logits of one layer."""
    call = plan.call(scheme, layer, q, k, state)
    with torch.autocast(q.device.type, enabled=False):
        return plain.logits(Request.of(scheme, plan, call, k))
