"""Rotary positions in the plane (2-D RoPE), axial and mixed.

Rotates pairs of query and key channels by the row and the column of an image patch:
each pair by one of the two (axial), or each by both, along a trained direction of its
own (mixed).

Formula: a pair rotates by `row * w` or `column * w` (axial), `row * a + column * b`.
Source: Heo et al. 2024, arXiv:2403.13298; bases and start values follow the authors'
released code (rope-vit, models/vit_rope.py).
Axes: ids are (row, column). Order: axial rotates the first half of the pairs by the
column (first=w), as rope-vit, or by the row (first=h), as timm's RotaryEmbeddingCat.
Layout: `adjacent` pairs (0, 1), (2, 3), ... in both; `half` pairs channel i with i +
d/2.
Frequencies: `base ** (-4 m / d)` for `m = 0 ... d / 4 - 1`, with a base of 100 for
axial and 10 for mixed. Mixed starts with two directions at right angles, each with
all frequencies, rotated by one random angle per head.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Facts, Geometry, register
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.rotation import Rotation


@register(
    "rope_2d",
    family="rotary",
    source="Heo et al. 2024, arXiv:2403.13298",
    axes=2,
    real=True,
    identities="mixed frequencies along the axes equal axial ones",
    oracles="rotary-embedding-torch 6e-8 (axial), timm 4e-7",
    checked="authors' code, paper not opened",
)
class Rope2d(Rotation):
    """Rotate by row and column. Mixed has `heads * head_dim` parameters.

    Args:
        geometry: `head_dim` channels, a multiple of 4, are rotated; `heads`
            have frequencies of their own if mixed.
        kind: axial, one axis per pair and fixed; mixed, both and trained.
        base: of the frequencies; 0 means 100 for axial and 10 for mixed.
        first: of axial, the axis that rotates the first half of the pairs.
        layout: which two channels make a pair.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        kind: Literal["axial", "mixed"] = "axial",
        base: float = 0.0,
        first: Literal["w", "h"] = "w",
        layout: Literal["adjacent", "half"] = "adjacent",
    ) -> None:
        base = base or (100.0 if kind == "axial" else 10.0)
        super().__init__(geometry, base, layout)
        if geometry.head_dim % 4:
            raise ConfigError(
                f"rope_2d: head_dim must be a multiple of 4, got {geometry.head_dim}"
            )
        self.first = first
        self.per_head = kind == "mixed"
        if self.per_head:
            self.frequencies = nn.Parameter(self._start().float())

    def angles(self, positions: Tensor) -> Tensor:
        if self.per_head:
            ids = positions.double()[..., None, :, :, None]  # (..., 1, seq, axis, 1)
            along = self.frequencies.double().movedim(0, 1)[:, None]
            return (ids * along).sum(dim=-2)
        row, column = positions[..., None].double().unbind(dim=-2)
        inv_freq = self._inv_freq(positions.device)
        halves = [column * inv_freq, row * inv_freq]
        return torch.cat(halves if self.first == "w" else halves[::-1], dim=-1)

    def _start(self) -> Tensor:
        """Draw the frequencies of mixed, `(axis, heads, pair)`: row, column."""
        drawn = 2 * math.pi * torch.rand(self.geometry.heads, 1).double()
        size = self._inv_freq(drawn.device)
        directions = torch.cat([drawn.expand(-1, len(size))] * 2, dim=-1)
        directions[:, len(size) :] += math.pi / 2
        size = size.repeat(2)
        return torch.stack([size * directions.sin(), size * directions.cos()])

    def _inv_freq(self, device: torch.device) -> Tensor:
        quarter = self.geometry.head_dim // 4
        return inverse_frequencies(quarter, self.base, device)
