"""Learned Fourier features.

Adds what a small perceptron makes of cosines and sines of the position, whose
frequencies are trained along with it.

Formula: `x_p + f([cos(p W), sin(p W)] / sqrt(features))`, f and W trained.
Source: Li et al. 2021, arXiv:2106.02795; the formula is that of several public
ports, which agree.
Layout: all cosines before all sines, divided by the root of their number; no 2 pi.
Frequencies start from N(0, gamma ** -2). Here gamma ** -2 is the variance; the PyPI
package learnable-fourier-positional-encoding and most ports take it for the standard
deviation. Others use gamma ** 2, the same with 1 / gamma for gamma. The unit of
positions is the token by default, so that the default gamma gives wavelengths of some
60 tokens. It may be the length, where gamma should be far smaller. The start of the
perceptron is torch's own.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, register
from posenc_compare.schemes.shared.layers import apply_wide


@register(
    "fourier_learned",
    family="absolute",
    source="Li et al. 2021, arXiv:2106.02795",
    real=True,
    identities="equals the formula under both readings of gamma",
    checked="public ports that agree, paper not opened; unverified: the unit of "
    "positions",
)
class FourierLearned(Scheme):
    """Add a perceptron of waves at trained frequencies.

    Args:
        geometry: `model_dim` channels come out.
        features: cosines and sines; 0 means as many as `model_dim`.
        hidden: units of the perceptron.
        gamma: inverse spread of the first frequencies.
        spread: what gamma ** -2 is of them.
        normalised: divide positions by the length.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        features: int = 0,
        hidden: int = 32,
        gamma: float = 10.0,
        spread: Literal["variance", "std"] = "variance",
        normalised: bool = False,
    ) -> None:
        super().__init__(geometry)
        features = features or geometry.model_dim
        if features < 2 or features % 2:
            raise ConfigError(
                f"fourier_learned: features must be even and at least 2, got {features}"
            )
        if hidden < 1:
            raise ConfigError(
                f"fourier_learned: hidden must be at least 1, got {hidden}"
            )
        if not gamma > 0:
            raise ConfigError(
                f"fourier_learned: gamma must be greater than 0, got {gamma}"
            )
        self.unit = geometry.length if normalised else 1
        self.waves = nn.Linear(1, features // 2, bias=False)
        self.rise = nn.Linear(features, hidden)
        self.fall = nn.Linear(hidden, geometry.model_dim)
        nn.init.normal_(
            self.waves.weight, std=1 / gamma if spread == "variance" else gamma**-2
        )

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = self.fall.out_features
        if x.shape[-1] != width:
            raise ShapeError(
                f"fourier_learned: the width must be {width}, as the perceptron's, "
                f"got {x.shape[-1]}"
            )
        share = positions.double() / self.unit
        angle = share[..., None] * self.waves.weight[:, 0]  # (..., seq, pair)
        waves = torch.cat([angle.cos(), angle.sin()], dim=-1)
        waves = waves / math.sqrt(waves.shape[-1])
        code = apply_wide(self.fall, F.gelu(apply_wide(self.rise, waves)))
        return x + code.to(x.dtype)
