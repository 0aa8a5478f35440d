"""Versions, the card, and which kernels of torch serve which calls of attention."""

import platform
import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.gpu.common import Options

KERNELS = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
DTYPES = (torch.bfloat16, torch.float32, torch.float64)
SHAPE = (4, 6, 512, 64)


def run(options: Options) -> None:
    """Print and keep the facts."""
    facts: dict[str, object] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }
    if options.device == "cuda":
        card = torch.cuda.get_device_properties(0)
        facts |= {
            "gpu": card.name,
            "capability": f"{card.major}.{card.minor}",
            "memory": card.total_memory,
            "cudnn": torch.backends.cudnn.version(),
            "tf32": torch.backends.cuda.matmul.allow_tf32,
        }
    for dtype in DTYPES:
        for mask in ("none", "dense", "dense with gradient", "slanted"):
            served = _served(options.device, dtype, mask)
            facts[f"attention {dtype}, mask {mask}".replace("torch.", "")] = served
    options.keep("facts", facts)
    for name, value in facts.items():
        print(f"{name:50s} {value}")


def _served(device: str, dtype: torch.dtype, mask: str) -> str:
    """Return the kernels that compute a call forward and backward."""
    length = SHAPE[2]
    found = []
    for name in KERNELS:
        x = torch.randn(SHAPE, device=device, dtype=dtype).requires_grad_()
        vector = torch.randn(SHAPE[1], 2 * length - 1, device=device, dtype=dtype)
        bias = None
        if mask == "slanted":
            sizes, steps = (1, SHAPE[1], length, length), (0, 2 * length - 1, 1, 1)
            bias = vector.as_strided(sizes, steps)
        elif mask != "none":
            bias = torch.randn(1, SHAPE[1], length, length, device=device, dtype=dtype)
            bias.requires_grad_("gradient" in mask)
        try:
            with warnings.catch_warnings(), sdpa_kernel([getattr(SDPBackend, name)]):
                warnings.simplefilter("ignore")
                out = F.scaled_dot_product_attention(
                    x, x, x, attn_mask=bias, is_causal=bias is None
                )
                out.sum().backward()
        except RuntimeError:
            continue
        found.append(name.partition("_")[0].lower())
    return " ".join(found)
