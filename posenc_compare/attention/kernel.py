"""Torch's attention kernel, as the paths call it."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, **given: Any) -> Tensor:
    """Return `(batch, heads, query, value_dim)`.

    The kernel for CPUs is slow where values have other channels than queries and keys;
    zeros in the channels that one side lacks change nothing.

    Args:
        q: `(batch, heads, query, head_dim)`.
        k: `(batch, key_heads, key, head_dim)`.
        v: `(batch, key_heads, key, value_dim)`.
        scale: factor of every product of query and key.
        given: the mask, and what else the kernel takes.
    """
    wide, width = q.shape[-1], v.shape[-1]
    if not q.is_cuda and wide != width:
        most = max(wide, width)
        q, k, v = (F.pad(x, (0, most - x.shape[-1])) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, scale=scale, **given)
    return out[..., :width]
