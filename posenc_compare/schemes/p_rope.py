"""Rotary positions for the highest frequencies only (p-RoPE).

Rotates queries and keys as RoPE does, except for the slowest pairs of channels, which
are left alone and so carry content whatever the distance.

Formula: pair m rotates by `p * base ** (-2 m / d)`, slow pairs not at all.
Source: Barbero et al. 2024, arXiv:2410.06205; which pairs are kept follows the code
in its appendix and transformers' rope_type proportional, `int(p * head_dim // 2)`.
Layout: `half` pairs channel i with i + d/2, `adjacent` pairs (0, 1), (2, 3), ...
The frequencies are those of the whole head, with the slowest set to 0. Partial RoPE
with the same fraction spreads a full range of frequencies over fewer channels.
Length: the fraction is a share of the frequencies, at every length. The slowest quarter
turns at most 1.3 times in the paper's 8192 positions, and 0.01 times in 64. There it
makes no difference whether it rotates; a smaller fraction does.
"""

from typing import Literal

from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, register
from posenc_compare.schemes.shared.frequencies import position_angles
from posenc_compare.schemes.shared.rotation import Rotation, pair_count


@register(
    "p_rope",
    family="rotary",
    source="Barbero et al. 2024, arXiv:2410.06205",
    real=True,
    identities="equals `rope` with fraction 1, and `nope` with fraction 0",
    oracles="transformers 1e-7",
    checked="code in the paper's appendix, transformers",
)
class PRope(Rotation):
    """Rotate by the highest frequencies of RoPE alone. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        fraction: share of the frequencies that are kept, rounded down; 1 is RoPE, 0
            no position at all. The paper's best is 0.75.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        fraction: float = 0.75,
    ) -> None:
        super().__init__(geometry, base, layout)
        self.pairs = pair_count("p_rope", geometry.head_dim)
        if not 0 <= fraction <= 1:
            raise ConfigError(f"p_rope: fraction must be in [0, 1], got {fraction}")
        self.kept = int(fraction * geometry.head_dim // 2)

    def angles(self, positions: Tensor) -> Tensor:
        angle = position_angles(positions, self.pairs, self.base)
        angle[..., self.kept :] = 0
        return angle
