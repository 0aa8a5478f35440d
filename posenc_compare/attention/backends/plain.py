"""The definition, step by step, in float32 or wider: the reference of all paths."""

import math

import torch
from torch import Tensor

from posenc_compare.attention.request import Request
from posenc_compare.schemes.contract import check_returned


def serves(request: Request) -> str:
    """Return nothing: the path serves every request."""
    return ""


def run(request: Request) -> Tensor:
    """Attend as the definition says, in blocks of rows."""
    return request.by_rows(_attend)


def _attend(request: Request) -> Tensor:
    scheme, call = request.scheme, request.call
    found = logits(request)
    weights = scheme.weights(found, call)
    if weights is None:
        weights = found.softmax(dim=-1)
    else:
        check_returned(scheme, "weights", weights, found.shape, found)
    out = weights @ request.whole_heads()[1].to(weights.dtype)
    more = scheme.values(weights, call)
    if more is not None and getattr(more, "ndim", 1):
        check_returned(scheme, "values", more, out.shape, request.v)
    return (out if more is None else out + more).to(request.v.dtype)


def logits(request: Request) -> Tensor:
    """Return the logits, -inf where a query may not look."""
    q, (k, _) = request.q, request.whole_heads()
    wide = torch.promote_types(q.dtype, torch.float32)
    found = q.to(wide) @ k.to(wide).mT * request.scale
    if request.bias is not None:
        found = found + request.added().to(wide)
    shape = found.shape
    found = request.scheme.scores(found, request.call)
    check_returned(request.scheme, "scores", found, shape, q)
    return found.masked_fill(~request.call.keep(), -math.inf)
