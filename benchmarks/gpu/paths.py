"""Milliseconds of every path that serves a scheme, by length, in bfloat16.

Torch's own kernels without a bias, by name, are what they are held against.
"""

from collections.abc import Callable
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.gpu.common import Options, fault, median_ms, shown
from posenc_compare.attention import Path, attention
from posenc_compare.schemes import Geometry
from posenc_compare.variants import parse_variants

SCHEMES = ("nope", "rope", "alibi", "t5_bias", "fox", "deberta")
KERNELS = ("CUDNN_ATTENTION", "FLASH_ATTENTION")
SIZES = ((512, 64), (2048, 16), (8192, 2), (32768, 1))  # length, batch
HEADS, HEAD_DIM = 6, 64
LONGEST = 4096  # for paths that write all pairs out


def run(options: Options) -> None:
    """Time forward alone, and with the backward pass."""
    rows: list[dict[str, Any]] = []
    for length, batch in ((64, 2),) if options.small else SIZES:
        for name in KERNELS if options.device == "cuda" else ():
            row = {"kernel": name, "length": length, "batch": batch}
            try:
                row |= _kernel(name, length, batch, options)
            except RuntimeError as error:
                row |= fault(error)
            rows.append(row)
            print(shown(row), flush=True)
        for name in options.schemes or SCHEMES:
            for path in get_args(Path):
                if path in ("dense", "plain") and length > LONGEST:
                    continue
                row: dict[str, Any] = {"scheme": name, "length": length}
                row |= {"batch": batch, "path": path}
                try:
                    row |= _timed(name, length, batch, path, options)
                except Exception as error:
                    row |= fault(error)
                    if "refused" in row:
                        continue
                rows.append(row)
                options.keep("paths", rows)
                print(shown(row), flush=True)


def _timed(
    name: str, length: int, batch: int, path: Path, options: Options
) -> dict[str, float]:
    """Return the medians of one path."""
    (variant,) = parse_variants(name)
    geometry = Geometry(model_dim=HEADS * HEAD_DIM, heads=HEADS, length=length)
    scheme = variant.build(geometry).to(options.device)
    q, k, v = _inputs(length, batch, options)
    x = torch.randn(batch, length, HEADS * HEAD_DIM, device=options.device)
    ids = torch.arange(length, device=options.device)

    def forward() -> Tensor:
        state = scheme.token_state(x)
        return attention(q, k, v, scheme=scheme, positions=ids, state=state, path=path)

    return _both(forward, options)


def _kernel(name: str, length: int, batch: int, options: Options) -> dict[str, float]:
    """Return the medians of a kernel of torch under a causal mask."""
    q, k, v = _inputs(length, batch, options)
    with sdpa_kernel([getattr(SDPBackend, name)]):
        return _both(
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), options
        )


def _inputs(length: int, batch: int, options: Options) -> list[Tensor]:
    shape = (batch, HEADS, length, HEAD_DIM)
    made = {"device": options.device, "dtype": torch.bfloat16}
    return [torch.randn(shape, **made).requires_grad_() for _ in range(3)]


def _both(forward: Callable[[], Tensor], options: Options) -> dict[str, float]:
    """Return the medians of a forward pass, and of one with its backward pass."""
    rounds = 2 if options.small else 20
    with torch.no_grad():
        alone = median_ms(forward, options.device, rounds)
        grad = torch.randn_like(forward())
    both = median_ms(lambda: forward().backward(grad), options.device, rounds)
    return {"forward_ms": alone, "both_ms": both}
