"""KERPLE, logarithmic kernel.

Subtracts from each logit a multiple of the logarithm of the distance; how steep and
from where on it bends is trained, per head.

Formula: `bias[h, i, j] = -a_h * log(1 + b_h * |i - j|)`.
Source: Chi et al. 2022, arXiv:2205.09921; start and bounds follow the authors' code
(chijames/KERPLE, megatron/mpu/layers.py), which also shares one instance among all
layers.
Direction: the distance is |query - key|; the authors' code knows the past only.
The authors keep both numbers at 0.01 or above by overwriting them at each step. Here
they stay as trained, the kernel takes the bound instead, and the gradient passes it
as if it were not there.
"""

import torch
from torch import Tensor, nn

from posenc_compare.schemes.scheme import Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.bounds import clamp_straight_through

LEAST = 1e-2


@register(
    "kerple_log",
    family="bias",
    source="Chi et al. 2022, arXiv:2205.09921",
    real=True,
    identities="bounds hold in the kernel and pass the gradient",
    checked="authors' code",
)
class KerpleLog(Scheme):
    """Subtract `steepness * log(1 + rate * distance)`. `2 * heads` parameters.

    Args:
        geometry: `heads` numbers of each kind.
    """

    facts = Facts(
        known_faults={
            "C15": "a parameter beyond its bound keeps its gradient, to come back"
        }
    )

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        self.steepness = nn.Parameter(2 * torch.rand(geometry.heads))
        self.rate = nn.Parameter(torch.rand(geometry.heads))

    def offset_bias(self, offsets: Tensor) -> Tensor:
        distance = offsets.abs().double()
        steepness = clamp_straight_through(self.steepness, LEAST)[:, None]
        rate = clamp_straight_through(self.rate, LEAST)[:, None]
        return -steepness * torch.log1p(rate * distance)
