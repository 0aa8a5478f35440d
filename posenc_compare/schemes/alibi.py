"""Attention with linear biases (ALiBi).

Every head subtracts a fixed multiple of the query-key distance from its logits.

Formula: `bias[h, i, j] = -m_h * |i - j|` with the slopes `m_h = 2 ** (-8 h / H)` of
head h = 1 ... H, if H is a power of 2. Other head counts follow the released code.
Source: Press et al. 2022, arXiv:2108.12409, section 3; slopes as in the authors'
released code.
Direction: the paper defines the past only. Symmetric uses the distance |query - key|
and serves both directions; causal uses query - key as it is, which would reward the
future, and so is refused without a causal mask. The bias is added after the division by
sqrt(head_dim); Falcon adds it before.
"""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from posenc_compare.schemes.scheme import Geometry, Scheme, register
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.transfer import to_device


@register(
    "alibi",
    family="bias",
    source="Press et al. 2022, arXiv:2108.12409",
    real=True,
    identities="slopes of the paper",
    oracles="transformers 1e-7, x-transformers 6e-8, attn-gym 1e-7",
    checked="paper, authors' code",
)
class Alibi(Scheme):
    """Subtract `slope * distance` from every logit. Has no parameters.

    Args:
        geometry: `heads` sets the slopes.
        direction: symmetric for any mask, causal as published.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        direction: Literal["symmetric", "causal"] = "symmetric",
    ) -> None:
        super().__init__(geometry)
        self.slopes = slopes(geometry.heads)
        self.facts = replace(self.facts, causal_only=direction == "causal")

    def offset_bias(self, offsets: Tensor) -> Tensor:
        distance = -offsets if self.facts.causal_only else offsets.abs()
        slope = to_device(
            torch.tensor(self.slopes, dtype=torch.float64), offsets.device
        )
        return -slope[:, None] * distance
