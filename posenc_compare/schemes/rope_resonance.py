"""Rotary positions whose wavelengths are whole numbers (Resonance RoPE).

Rotates queries and keys as RoPE does, but every pair of channels is back where it
started after a whole number of positions. So a pair that has made a turn in training
meets no new angle in a longer text.

Formula: pair m rotates by `2 pi p / w`, `w = round(2 pi base ** (2 m / d))`.
Source: Wang et al. 2024, arXiv:2403.00071, section 4 and algorithm 1, read in a copy of
its text; authors' code (sheryc/resonance_rope). Both round every pair: the fastest from
6.28 to 6 positions, which is 5 % faster, the slow ones by half a position at most. The
code copies its table after w positions; here angles go on growing, in float64.
Layout: `half` pairs channel i with i + d/2, `adjacent` pairs (0, 1), (2, 3), ...
Convention: w is at least 1; only a base far below 1 would give less. In a wide head two
fast pairs may get the same w.
Length: in base 10000, about a quarter of the pairs turn once in 64 positions, at which
the paper trains too, and 70 % in 4096. The others meet new angles in a longer text, as
in RoPE. (Of the paper's 32 pairs 9 turn once, where it says 17.)
"""

import math
from typing import Literal

from torch import Tensor

from posenc_compare.schemes.scheme import Geometry, register
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.rotation import Rotation, pair_count


@register(
    "rope_resonance",
    family="rotary",
    source="Wang et al. 2024, arXiv:2403.00071",
    real=True,
    identities="wavelengths are whole numbers, after which each pair repeats",
    checked="paper (a copy of its text), authors' code",
)
class RopeResonance(Rotation):
    """Rotate as RoPE, by wavelengths of whole positions. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions, before
            they are rounded.
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
        self.pairs = pair_count("rope_resonance", geometry.head_dim)

    def angles(self, positions: Tensor) -> Tensor:
        inv_freq = inverse_frequencies(self.pairs, self.base, positions.device)
        wavelengths = (2 * math.pi / inv_freq).round().clamp(min=1)
        return positions[..., None].double() * (2 * math.pi / wavelengths)
