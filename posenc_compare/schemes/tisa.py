"""Translation-invariant self-attention (TISA).

Adds to each logit a sum of a few bumps over the offset. Height, sharpness and centre of
every bump are trained, per head.

Formula: `bias[h, i, j] = sum_s a_hs exp(-|b_hs| (j - i - c_hs) ** 2)` with kernels
s = 1 ... S.
Source: Wennberg and Henter 2021, arXiv:2106.01950, from the authors' released code
(ulmewennberg/tisa, model/tisa.py); of the paper, the abstract was read.
Sign: the offset is key minus query. In the code, it is query minus key minus 1, since
its list of offsets is shifted by one. Trained centres absorb the sign and the shift.
Start: normal, as released. Centres have mean 0 and standard deviation 5. Heights and
sharpnesses have mean 0.1 and standard deviation 0.01.
Layers: all share one instance, as ALBERT, the network of the paper, shares layers.
"""

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, Scheme, register

SPREAD = 5.0  # standard deviation of the first centres, in positions
FIRST = 0.1  # mean of the first heights and of the sharpness


@register(
    "tisa",
    family="bias",
    source="Wennberg and Henter 2021, arXiv:2106.01950",
    real=True,
    identities="equals `nope` with heights 0; a bump is highest at its centre",
    checked="authors' code, paper not opened",
)
class Tisa(Scheme):
    """Add a sum of bumps over the offset. `3 * kernels * heads` parameters.

    Args:
        geometry: `heads` sets the columns of the three tables.
        kernels: number of bumps in each head.
    """

    def __init__(self, geometry: Geometry, *, kernels: int = 5) -> None:
        super().__init__(geometry)
        if kernels < 1:
            raise ConfigError(f"tisa: kernels must be at least 1, got {kernels}")
        shape = kernels, geometry.heads
        self.centre = nn.Parameter(SPREAD * torch.randn(shape))
        self.height = nn.Parameter(FIRST + FIRST / 10 * torch.randn(shape))
        self.sharpness = nn.Parameter(FIRST + FIRST / 10 * torch.randn(shape))

    def offset_bias(self, offsets: Tensor) -> Tensor:
        centre, height, sharpness = (
            number.double()[..., None]  # (kernel, heads, 1)
            for number in (self.centre, self.height, self.sharpness)
        )
        away = offsets.double() - centre
        return (height * (-sharpness.abs() * away.square()).exp()).sum(dim=0)
