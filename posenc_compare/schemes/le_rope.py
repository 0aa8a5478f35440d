"""Rotary positions at trained frequencies that all layers share (LeRoPE).

Rotates as RoPE does, by frequencies that start as RoPE's. One factor for each pair is
trained for the whole network: all layers and heads share it.

Formula: pair m at position p rotates by `p * exp(a_m) * base ** (-2 m / d)`, with a_m
trained and 0 at first.
Source: Karypis et al. 2026, arXiv:2607.10134, section 3.1, from three public accounts
of it, which agree; no code of the authors was found.
Layout: `half` pairs channel i with i + d/2, `adjacent` pairs (0, 1), (2, 3), ...
`rope_learned` trains frequencies for each layer, or for each head.
Left out: the paper keeps the factors out of the weight decay and clips their gradient
alone; both belong to the trainer.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.schemes.scheme import Call, Geometry, register
from posenc_compare.schemes.shared.frequencies import position_angles
from posenc_compare.schemes.shared.rotation import Rotation, pair_count


@register(
    "le_rope",
    family="rotary",
    source="Karypis et al. 2026, arXiv:2607.10134",
    real=True,
)
class LeRope(Rotation):
    """Rotate by trained frequencies that all layers share. `head_dim / 2` parameters.

    Args:
        geometry: `head_dim` channels are rotated.
        base: the frequencies start with wavelengths from 2 pi to nearly 2 pi times
            this, in positions.
        layout: which two channels make a pair.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
    ) -> None:
        super().__init__(geometry, base, layout)
        pairs = pair_count("le_rope", geometry.head_dim)
        self.log_factor = nn.Parameter(torch.zeros(pairs))

    def angles(self, positions: Tensor) -> Tensor:
        pairs = len(self.log_factor)
        fixed = position_angles(positions, pairs, self.base)
        return fixed * self.log_factor.double().exp()

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return super().query(q, positions)  # each layer keeps the gradient of its own

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return super().key(k, positions)
