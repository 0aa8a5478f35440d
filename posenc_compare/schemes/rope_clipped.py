"""Rotary positions whose slowest rotations are clipped (clipped RoPE).

Rotates queries and keys as RoPE does, except that the slowest pairs of channels rotate
more slowly still, down to the last, which stands still.

Formula: pair m rotates by `p * base ** (-2 m / d) * c(m)`. c is 1, but for the slowest
n pairs it is `(1 + cos(pi i / (n - 1))) / 2`, i from 0 to n - 1, or 0 if clip=hard.
Source: Li et al. 2026, arXiv:2602.05258; the rule is that of the authors' code
(hrlics/CoPE, modeling_cope.py and the copy that trains).
Share: the code clips 20 of 64 pairs. Notes of others on the paper speak of three
quarters of the pairs that make less than one turn in pretraining.
Layout: `half` pairs channel i with i + d/2, `adjacent` pairs (0, 1), (2, 3), ...
The first of the n pairs keeps its frequency, so that soft with n = 1 is RoPE.
Length: the share is one of the frequencies, at every length. The first pair of the
default turns 0.16 times in the released training (base 1e7, 65536 positions), and in
base 10000 0.02 times in 64. There clipping makes hardly a difference; 0.75 clips all
pairs with less than one turn.
The authors call it CoPE, which is the name of another scheme here.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, register
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.rotation import Rotation, pair_count


@register(
    "rope_clipped",
    family="rotary",
    source="Li et al. 2026, arXiv:2602.05258",
    real=True,
    identities="equals `rope` with share 0; with hard clipping, equals `p_rope` with "
    "the same frequencies kept",
    checked="authors' code, paper not opened; unverified: the share",
)
class RopeClipped(Rotation):
    """Rotate as RoPE, with its slowest frequencies reduced or set to 0. No parameters.

    Args:
        geometry: `head_dim` channels are rotated.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        share: share of the frequencies that are clipped, rounded to whole pairs; 0 is
            RoPE. Released networks clip 20 of 64.
        clip: soft lowers them along half a cosine, hard sets them to 0.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        share: float = 0.3125,
        clip: Literal["soft", "hard"] = "soft",
    ) -> None:
        super().__init__(geometry, base, layout)
        self.pairs = pair_count("rope_clipped", geometry.head_dim)
        if not 0 <= share <= 1:
            raise ConfigError(f"rope_clipped: share must be in [0, 1], got {share}")
        self.clipped = round(share * self.pairs)
        self.clip: Literal["soft", "hard"] = clip

    def angles(self, positions: Tensor) -> Tensor:
        inv_freq = inverse_frequencies(self.pairs, self.base, positions.device)
        slowest = inv_freq[self.pairs - self.clipped :]
        if self.clip == "hard":
            slowest.zero_()
        else:
            device = slowest.device
            sweep = torch.linspace(
                0, math.pi, self.clipped, dtype=torch.float64, device=device
            )
            slowest *= (1 + sweep.cos()) / 2
        return positions[..., None].double() * inv_freq
