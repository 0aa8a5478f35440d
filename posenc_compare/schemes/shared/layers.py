"""Trained layers of schemes, applied without losing precision."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def apply_wide(layer: nn.Linear, x: Tensor) -> Tensor:
    """Apply a linear layer in float32 or wider, also where autocast is on.

    Args:
        layer: its weights may have any dtype.
        x: `(..., in)`.

    Returns:
        `(..., out)` in the widest of the dtypes of layer and input and float32.
    """
    wide = torch.promote_types(x.dtype, layer.weight.dtype)
    wide = torch.promote_types(wide, torch.float32)
    with torch.autocast(x.device.type, enabled=False):
        out = F.linear(x.to(wide), layer.weight.to(wide))
        return out if layer.bias is None else out + layer.bias.to(wide)
