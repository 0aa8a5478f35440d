"""Random Fourier features (RFF).

Adds cosines and sines of the position at fixed random frequencies, so that the inner
product of two codes is near a Gaussian of the distance.

Formula: `x_p + [cos(2 pi B p / length), sin(2 pi B p / length)]`, with B drawn from
N(0, sigma ** 2).
Source: Tancik et al. 2020, arXiv:2006.10739, for the input coordinates of a perceptron;
adding the features to tokens is our adaptation.
Layout: all cosines before all sines. Frequencies are drawn once, kept with the
parameters, and never trained. `sigma` counts turns over the length: positions are
divided by the length the scheme was built for, and go past 1 beyond it. The paper
tunes sigma for every task; the default is ours. A module cast to bfloat16 has other
frequencies, rounded ones; autocast leaves them alone.
"""

import math

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, register


@register(
    "fourier_random",
    family="absolute",
    source="Tancik et al. 2020, arXiv:2006.10739",
    real=True,
    checked="paper; as a code for tokens, our transfer",
)
class FourierRandom(Scheme):
    """Add cosines and sines at fixed random frequencies. Nothing is trained.

    `model_dim / 2` parameters, which are not trained.

    Args:
        geometry: `model_dim / 2` frequencies; `length` is the unit of positions.
        sigma: standard deviation of the frequencies, in turns over the length. The
            Gaussian has the width `length / (2 pi sigma)`, in positions.
    """

    def __init__(self, geometry: Geometry, *, sigma: float = 10.0) -> None:
        super().__init__(geometry)
        if geometry.model_dim % 2:
            raise ConfigError(
                f"fourier_random: model_dim must be even, got {geometry.model_dim}"
            )
        if not sigma > 0:
            raise ConfigError(
                f"fourier_random: sigma must be greater than 0, got {sigma}"
            )
        self.frequencies = nn.Parameter(
            torch.randn(geometry.model_dim // 2) * sigma, requires_grad=False
        )

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = 2 * len(self.frequencies)
        if x.shape[-1] != width:
            raise ShapeError(
                f"fourier_random: the width must be {width}, twice the frequencies, "
                f"got {x.shape[-1]}"
            )
        share = positions.double() / self.geometry.length
        angle = 2 * math.pi * share[..., None] * self.frequencies  # (..., seq, pair)
        return x + torch.cat([angle.cos(), angle.sin()], dim=-1).to(x.dtype)
