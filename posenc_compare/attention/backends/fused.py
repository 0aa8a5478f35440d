"""The path of nothing added: one kernel, under no mask or the plain causal one."""

from torch import Tensor

from posenc_compare.attention.kernel import attend
from posenc_compare.attention.request import Request

# With fewer keys than a vector register has numbers, torch's kernel for CPUs returns 0
# where all logits of a row are NaN.
KEYS = 16


def serves(request: Request) -> str:
    """Return nothing if the path serves a request, or else why not."""
    call = request.call
    queries, keys = call.sizes
    if reason := request.whole_rows():
        return reason
    if request.biased:
        return f"{request.scheme.name} adds a bias"
    if call.segments is not None or call.window is not None or call.has_prefix:
        return "the mask has more than a causal side"
    if keys < KEYS and not request.q.is_cuda:
        return f"its kernel for CPUs hides NaN below {KEYS} keys"
    if call.causal and queries not in (1, keys):
        return "its causal mask would be aligned to the first key"
    return ""


def run(request: Request) -> Tensor:
    """Attend; a single query sees all keys, so needs no mask."""
    return attend(
        request.q,
        request.k,
        request.v,
        request.scale,
        is_causal=request.call.causal and request.call.sizes[0] > 1,
        enable_gqa=request.grouped,
    )
