"""High-frequency rotary positions (HoPE).

Rotates only the pairs of channels that make at least one full turn within the training
length, so that no angle is met for the first time in a longer text.

Formula: pair m rotates by `p * base ** (-2 m / d)`, slow pairs not at all.
Source: Chen et al. 2024, arXiv:2410.21216.
Cut: the paper keeps high frequencies and replaces other components by ones that do not
depend on the position. One turn within the length is the cut of two public ports, and
FoPE's. One of the two leaves the other channels as they are, as here; others add
trained vectors.
Layout: `half` pairs channel i with i + d/2, `adjacent` pairs (0, 1), (2, 3), ...
Not the hyperbolic HoPE (arXiv:2509.05218).
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
    "hope",
    family="rotary",
    source="Chen et al. 2024, arXiv:2410.21216",
    real=True,
    identities="is `p_rope` with a fraction from the length",
    checked="two public ports, paper not opened; unverified: the paper's cut-off "
    "frequency",
)
class Hope(Rotation):
    """Rotate by the frequencies with a full turn in training. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        length: longest wavelength that rotates, in positions; at least 7, so that the
            fastest pair rotates. 0 means the geometry's length.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        length: int = 0,
    ) -> None:
        super().__init__(geometry, base, layout)
        self.pairs = pair_count("hope", geometry.head_dim)
        self.length = length or geometry.length
        if self.length < 7:
            raise ConfigError(f"hope: length must be at least 7, got {self.length}")

    def angles(self, positions: Tensor) -> Tensor:
        inv_freq = inverse_frequencies(self.pairs, self.base, positions.device)
        slow = inv_freq < 2 * math.pi / self.length
        return positions[..., None].double() * torch.where(slow, 0.0, inv_freq)
