"""Bayesian attention mechanism (BAM): a generalised Gaussian of the distance.

Adds to each logit the logarithm of a prior on the distance, a generalised Gaussian
whose width and exponent are trained, per head.

Formula: `bias[h, i, j] = -exp(a_h) * (|j - i - m_h| + 1e-5) ** b_h`.
Source: Bianchessi et al. 2025, arXiv:2505.22842; numbers follow the authors' released
code, one set for all layers.
Start: exponents 1 and the slopes of ALiBi, which is ALiBi but for a constant. The
exponent 0 is no position at all.
Direction: the code takes both sides; m, where the bias is largest, is `exp(l) -
exp(-l)` of a number l that starts at 0 and is trained only with `location`.
"""

import torch
from torch import Tensor, nn

from posenc_compare.schemes.scheme import Geometry, Scheme, register
from posenc_compare.schemes.shared.slopes import slopes

LEAST = 1e-5  # keeps the gradient of the exponent finite where the distance is 0


@register(
    "bam",
    family="bias",
    source="Bianchessi et al. 2025, arXiv:2505.22842",
    real=True,
    identities="starts as `alibi` up to a constant; equals `nope` with exponent 0",
    checked="authors' code, paper not opened",
)
class Bam(Scheme):
    """Subtract `exp(factor) * distance ** exponent`.

    `2 * heads` parameters, or three per head with a location.

    Args:
        geometry: `heads` numbers of each kind.
        exponent: initial exponent of the distance.
        location: also train where the bias is largest, at first the query itself.
    """

    def __init__(
        self, geometry: Geometry, *, exponent: float = 1.0, location: bool = False
    ) -> None:
        super().__init__(geometry)
        self.factor = nn.Parameter(torch.tensor(slopes(geometry.heads)).log())
        self.exponent = nn.Parameter(torch.full((geometry.heads,), float(exponent)))
        self.location = nn.Parameter(torch.zeros(geometry.heads)) if location else None

    def offset_bias(self, offsets: Tensor) -> Tensor:
        away = offsets.double()[None]
        if self.location is not None:
            away = away - 2 * self.location.double().sinh()[:, None]
        exponent, factor = self.exponent.double(), self.factor.double().exp()
        return -factor[:, None] * (away.abs() + LEAST) ** exponent[:, None]
