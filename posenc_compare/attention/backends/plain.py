"""The definition, step by step, in float32 or wider: the reference of all paths."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.attention.request import Request
from posenc_compare.schemes.contract import check_returned

QUERIES = 128  # queries whose logits stay in the cache of a CPU from step to step


def serves(request: Request) -> str:
    """Return nothing: the path serves every request."""
    return ""


def run(request: Request) -> Tensor:
    """Attend as the definition says, in blocks of rows."""
    return request.by_rows(_attend)


def _attend(request: Request) -> Tensor:
    scheme, call = request.scheme, request.call
    shares = weights(request)
    out = shares @ request.whole_heads()[1].to(shares.dtype)
    more = scheme.values(shares, call)
    if more is not None and getattr(more, "ndim", 1):
        check_returned(scheme, "values", more, out.shape, request.v)
    return (out if more is None else out + more).to(request.v.dtype)


def weights(request: Request) -> Tensor:
    """Return the weights of all pairs, `(batch, heads, query, key)`.

    Where nothing learns they are made of few rows at a time, of the keys that these
    may see.
    """
    queries, keys = request.call.sizes
    if torch.is_grad_enabled() or queries <= QUERIES:
        return _weights_of(request)
    parts = []
    for start in range(0, queries, QUERIES):
        part = _weights_of(request.rows(start, min(start + QUERIES, queries)))
        parts.append(F.pad(part, (0, keys - part.shape[-1])))
    return torch.cat(parts, dim=2)


def _weights_of(request: Request) -> Tensor:
    scheme, found = request.scheme, logits(request)
    shares = scheme.weights(found, request.call)
    if shares is None:
        return found.softmax(dim=-1)
    check_returned(scheme, "weights", shares, found.shape, found)
    return shares


def log_sum_exp(request: Request) -> Tensor:
    """Return the log-sum-exp of the logits, `(batch, heads, query, 1)`."""
    return logits(request).logsumexp(dim=-1, keepdim=True)


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
    return torch.where(request.call.keep(), found, -math.inf)
