"""The path of written-out masks: the bias of all pairs is handed over as a mask."""

import math

import torch
from torch import Tensor

from posenc_compare.attention.kernel import attend
from posenc_compare.attention.request import Request


def serves(request: Request) -> str:
    """Return nothing if the path serves a request, or else why not."""
    scheme = request.scheme
    if reason := request.whole_rows():
        return reason
    if scheme.facts.causal_only and (scheme.acts_at("query") or scheme.acts_at("key")):
        return "products with later keys may be infinite, and a mask adds to them"
    return ""


def run(request: Request) -> Tensor:
    """Build bias and mask for all pairs of a block of rows, and attend."""
    return request.by_rows(_attend)


def _attend(request: Request) -> Tensor:
    mask = request.call.keep()
    if request.bias is not None:
        added = request.added().to(request.mask_dtype())
        mask = torch.where(mask, added, -math.inf)
    return attend(
        request.q,
        request.k,
        request.v,
        request.scale,
        attn_mask=mask,
        enable_gqa=request.grouped,
    )
