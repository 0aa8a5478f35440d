"""The path of compiled score functions: mask and bias run inside the kernel."""

import functools
from typing import Any

import torch
from torch import Tensor

from posenc_compare.attention.request import Request

DTYPES = (torch.float16, torch.bfloat16, torch.float32)  # that compiled flex takes
WIDTH = 16  # channels of a head that compiled flex needs at least
KERNELS = 64  # forms of flex that one process may compile; torch allows 8


def serves(request: Request) -> str:
    """Return nothing if the path serves a request, or else why not."""
    q, v = request.q, request.v
    if reason := request.whole_rows():
        return reason
    if not q.is_cuda:
        tensors = [q, request.k, v, *request.scheme.parameters()]
        learns = any(tensor.requires_grad for tensor in tensors)
        return "it cannot train on the CPU" if learns else ""
    if q.dtype not in DTYPES:
        return f"its kernel multiplies no {q.dtype}"
    if min(q.shape[-1], v.shape[-1]) < WIDTH:
        return f"its kernel needs heads of {WIDTH} channels or more"
    return ""


def run(request: Request) -> Tensor:
    """Compile mask and bias into the kernel, on CUDA, and attend."""
    from torch.nn.attention import flex_attention as module

    call, bias = request.call, request.bias
    mask = request.plan.once(
        lambda: module.create_block_mask(
            lambda b, h, i, j: call.may_look(b, i, j),
            None if call.alike else call.q.shape[0],
            None,
            *call.sizes,
            device=request.q.device,
        ),
        *("block mask", call.window),
    )

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score if bias is None else score + bias(b, h, i, j).to(score.dtype)

    kernel = compile_flex() if request.q.is_cuda else module.flex_attention
    # Objects of their own: the mask sees the call, and where its q is the kernel's in
    # one form and not in another, torch fails at saying why it compiles again.
    q, k, v = (x.view_as(x) for x in (request.q, request.k, request.v))
    return kernel(
        q,
        k,
        v,
        score_mod,
        block_mask=mask,
        scale=request.scale,
        enable_gqa=request.grouped,
    )


@functools.cache
def compile_flex() -> Any:
    """Return flex attention, compiled for every score function and size by itself.

    Past its limit torch falls back, unasked, to a form that writes all pairs out.
    """
    from torch.nn.attention.flex_attention import flex_attention

    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, KERNELS)
    return torch.compile(flex_attention, dynamic=False)
