"""A bias that falls with the logarithm of the distance, as KERPLE with fixed numbers.

Source: own example, after Chi et al. 2022, arXiv:2205.09921; direction: symmetric.
"""

import torch
from torch import Tensor

from posenc_compare.schemes import Scheme, register


@register("log_bias", family="bias", source="own example")
class LogBias(Scheme):
    """Subtract `slope * log(1 + distance)`, with slopes 1/heads to 1. No parameters."""

    def offset_bias(self, offsets: Tensor) -> Tensor:
        heads = self.geometry.heads
        slope = torch.arange(1, heads + 1, device=offsets.device)[:, None] / heads
        return -slope * offsets.abs().double().log1p()  # (heads, offset)
