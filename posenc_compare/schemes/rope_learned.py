"""Rotary positions at trained frequencies.

Rotates as RoPE does, by frequencies that start as RoPE's and are trained: one set for
all heads, or one for each head.

Formula: pair m at position p rotates by `p * exp(f_m)`, or `p * exp(f_hm)`.
Source: Zhang et al. 2025, arXiv:2512.07805 (GRAPE-M without context), from the
authors' released code, whose division of f by a constant, a smaller learning rate, is
left out. LeRoPE is said to have one set for all layers. AdaRoPE (Wang et al. 2026) is
said to find that each head needs its own, with a temperature.
Layout: `half` pairs channel i with i + d/2, `adjacent` pairs (0, 1), (2, 3), ...
Each layer has frequencies of its own.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.schemes.scheme import Call, Facts, Geometry, register
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.rotation import Rotation, pair_count


@register(
    "rope_learned",
    family="rotary",
    source="Zhang et al. 2025, arXiv:2512.07805",
    real=True,
    identities="starts as `rope`",
    checked="authors' code, paper not opened; unverified: the form of AdaRoPE",
)
class RopeLearned(Rotation):
    """Rotate by trained frequencies.

    `head_dim / 2` parameters, or as many for each head, and a temperature each.

    Args:
        geometry: `head_dim` channels are rotated.
        base: the frequencies start with wavelengths from 2 pi to nearly 2 pi times
            this, in positions.
        layout: which two channels make a pair.
        by: whether all heads share the frequencies, or each has its own.
        temperature: train a factor of the logits for each head, at first 1.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        by: Literal["layer", "head"] = "layer",
        temperature: bool = False,
    ) -> None:
        super().__init__(geometry, base, layout)
        pairs, heads = pair_count("rope_learned", geometry.head_dim), geometry.heads
        self.per_head = by == "head"
        start = inverse_frequencies(pairs, base, torch.device("cpu")).log().float()
        self.frequency = nn.Parameter(
            start.repeat(heads, 1) if self.per_head else start
        )
        self.temperature = nn.Parameter(torch.zeros(heads)) if temperature else None

    def angles(self, positions: Tensor) -> Tensor:
        where = positions[..., None].double()
        if self.per_head:
            where = where[..., None, :, :]
            return where * self.frequency.double().exp()[:, None]
        return where * self.frequency.double().exp()

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        q = super().query(q, positions, call)
        if self.temperature is None:
            return q
        wide = torch.promote_types(q.dtype, torch.float32)
        factor = self.temperature.to(wide).exp()[:, None, None]
        return (q.to(wide) * factor).to(q.dtype)
