"""Polar coordinate position embedding (PoPE).

Each channel of a query or key becomes a length, which the content alone sets, at an
angle, which the position alone sets. Content and position do not mix, as they do
where a pair of channels is rotated.

Formula: `logit = scale * sum_c softplus(q_c) softplus(k_c) cos((j - i) w_c + phase_c)`.
Source: Gopalakrishnan et al. 2025, arXiv:2509.10534, section 3, equations 3 to 8. The
paper shows no scale; the usual one is in two public codes (lucidrains/PoPE-pytorch and
x-transformers) and here.
Convention: one frequency for each channel, `w_c = base ** (-c / head_dim)`, where RoPE
has one for two. The trained phase, one per head and channel, is added to the key and
clamped to [-2 pi, 0], as in lucidrains' code; docs/schemes.md says what that costs.
Lengths and angles need two channels for one, so heads of queries and keys have twice
the channels behind the hooks.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.schemes.scheme import Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.frequencies import position_angles


@register(
    "pope",
    family="rotary",
    source="Gopalakrishnan et al. 2025, arXiv:2509.10534",
    real=True,
    identities="the sign of a channel changes no angle",
    checked="paper, two public implementations",
)
class Pope(Scheme):
    """Magnitudes from content, phases from position. `heads * head_dim` parameters.

    Args:
        geometry: `heads` and `head_dim` set the phases.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        start: where the phases start: all 0, or uniform in [-2 pi, 0].
    """

    facts = Facts(per_layer=True, widens=2)

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        start: Literal["zero", "uniform"] = "zero",
    ) -> None:
        super().__init__(geometry)
        self.base = base
        size = (geometry.heads, 1, geometry.head_dim)
        drawn = torch.rand(size) if start == "uniform" else torch.zeros(size)
        self.phase = nn.Parameter(-2 * math.pi * drawn)

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return self._polar(q, positions, torch.zeros_like(self.phase[:1]))

    def key(self, k: Tensor, positions: Tensor) -> Tensor:
        return self._polar(k, positions, self.phase.clamp(-2 * math.pi, 0))

    def _polar(self, x: Tensor, positions: Tensor, phase: Tensor) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        size = F.softplus(x.to(wide))
        angle = position_angles(positions, x.shape[-1], self.base)
        angle = angle[..., None, :, :] + phase  # (batch, heads or 1, seq, head_dim)
        cosine, sine = angle.cos().to(wide), angle.sin().to(wide)
        return torch.cat([size * cosine, size * sine], dim=-1).to(x.dtype)
