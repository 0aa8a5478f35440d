"""Rotary positions in directions of the golden angle (golden gate RoPE).

Rotates each pair of query and key channels by the place of an image patch along a fixed
direction of its own. The directions of all pairs and heads are spread evenly, where
axial rotary positions have only two. Mixed `rope_2d` trains its directions.

Formula: a pair rotates by `w (row * sin(t) + column * cos(t))`, with
`t = pi g (h d/2 + m)` for pair m of head h, and `g = (sqrt(5) - 1) / 2`.
Source: Xiong 2025, jerryxio.ng/posts/nd-rope; the post's beginning was read, and its
code in two copies (GoldenGateRoPE2d), which agree but for the values of arguments.
Axes: ids are (row, column), in patches. In the code they run from -1 to 1 over every
image; one copy names frequencies from 0.2 to 20 as original. On 14 rows these are 0.031
and 3.1 radians per patch.
Frequencies: w runs from `slowest` to `fastest` on a logarithmic scale. The pairs that a
`fraction` leaves out come first and do not rotate.
Layout: `half` pairs channel i with i + d/2, as in the code.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, register
from posenc_compare.schemes.shared.rotation import Rotation, pair_count

GOLDEN = (math.sqrt(5) - 1) / 2


@register(
    "rope_golden",
    family="rotary",
    source="Xiong 2025, jerryxio.ng/posts/nd-rope",
    axes=2,
    real=True,
    identities="equals `nope` if `fraction` is 0",
    checked="two copies of the code, and the beginning of the post",
)
class RopeGolden(Rotation):
    """Rotate by the place along a direction of each pair and head. Has no parameters.

    Args:
        geometry: `heads` and `head_dim`, which must be even.
        slowest: radians per patch of the slowest pair that rotates.
        fastest: of the fastest pair.
        fraction: of the pairs that rotate.
        layout: which two channels make a pair.
    """

    per_head = True

    def __init__(
        self,
        geometry: Geometry,
        *,
        slowest: float = 0.03,
        fastest: float = 3.0,
        fraction: float = 1.0,
        layout: Literal["adjacent", "half"] = "half",
    ) -> None:
        if not 0 < slowest <= fastest:
            raise ConfigError(
                f"rope_golden: slowest must be greater than 0 and at most fastest, got "
                f"{slowest} and {fastest}"
            )
        if not 0 <= fraction <= 1:
            raise ConfigError(
                f"rope_golden: fraction must be from 0 to 1, got {fraction}"
            )
        super().__init__(geometry, fastest / slowest, layout)
        self.pairs = pair_count("rope_golden", geometry.head_dim)
        self.slowest, self.fraction = slowest, fraction

    def angles(self, positions: Tensor) -> Tensor:
        device, heads = positions.device, self.geometry.heads
        number = torch.arange(heads * self.pairs, device=device).double()
        direction = (math.pi * GOLDEN * number).view(heads, 1, self.pairs)
        speed = self._speeds(device)
        row, column = positions.double()[..., None, :, :, None].unbind(dim=-2)
        return row * (speed * direction.sin()) + column * (speed * direction.cos())

    def _speeds(self, device: torch.device) -> Tensor:
        """Return the radians per patch of each pair, slow pairs first."""
        still = round((1 - self.fraction) * self.pairs)
        exponents = torch.linspace(
            0, 1, self.pairs - still, dtype=torch.float64, device=device
        )
        zeros = torch.zeros(still, dtype=torch.float64, device=device)
        return torch.cat([zeros, self.slowest * self.base**exponents])
