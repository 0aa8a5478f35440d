"""KERPLE, power kernel.

Subtracts from each logit a multiple of a power of the distance; factor and exponent
are trained, per head. With exponent 1 it is ALiBi with these factors as slopes.

Formula: `bias[h, i, j] = -a_h * |i - j| ** b_h`.
Source: Chi et al. 2022, arXiv:2205.09921; start and bounds follow the authors' code
(chijames/KERPLE, megatron/mpu/layers.py), which also shares one instance among all
layers.
Direction: the distance is |query - key|; the authors' code knows the past only.
The kernel is valid for exponents up to 2. As in `kerple_log`, bounds hold in the
kernel, where the authors overwrite the parameters.
"""

import torch
from torch import Tensor, nn

from posenc_compare.schemes.scheme import Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.bounds import clamp_straight_through

LEAST = 1e-2
LARGEST_EXPONENT = 2.0


@register(
    "kerple_power",
    family="bias",
    source="Chi et al. 2022, arXiv:2205.09921",
    real=True,
    identities="the gradient is finite at distance 0",
    checked="authors' code",
)
class KerplePower(Scheme):
    """Subtract `factor * distance ** exponent`. `2 * heads` parameters.

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
        self.factor = nn.Parameter(torch.rand(geometry.heads))
        self.exponent = nn.Parameter(2 * torch.rand(geometry.heads))

    def offset_bias(self, offsets: Tensor) -> Tensor:
        distance = offsets.abs().double()
        factor = clamp_straight_through(self.factor, LEAST)[:, None]
        exponent = clamp_straight_through(self.exponent, LEAST, LARGEST_EXPONENT)[
            :, None
        ]
        return -factor * distance**exponent
