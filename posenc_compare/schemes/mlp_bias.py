"""Continuous relative position bias.

Adds to each logit what a small perceptron makes of the signed distance, so that it is
defined at distances never seen.

Formula: `bias[h, i, j] = 16 * sigmoid(f_h(s(i - j)))` with a trained f.
Source: Liu et al. 2021, arXiv:2111.09883 (Swin Transformer V2), here on one axis;
input, perceptron, bound and start follow the released code
(microsoft/Swin-Transformer, models/swin_transformer_v2.py).
Sign: query minus key, as in the released code. s is
`sign * log2(1 + 8 |distance| / most) / 3` for log and `distance / most` for linear,
where most is the largest distance of training. Without bounded the sigmoid is left
out. Swin V2 has cosine attention beside it; this is the bias alone.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.layers import apply_wide


@register(
    "mlp_bias",
    family="bias",
    source="Liu et al. 2021, arXiv:2111.09883",
    real=True,
    identities="start as released; past and future differ",
    checked="authors' code, here on one axis",
)
class MlpBias(Scheme):
    """Add a perceptron of the signed distance.

    `hidden * (heads + 2)` parameters.

    Args:
        geometry: `heads` outputs; `length - 1` is the maximum distance.
        inputs: how the distance enters.
        hidden: units of the perceptron.
        bounded: keep the bias between 0 and 16.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        inputs: Literal["log", "linear"] = "log",
        hidden: int = 512,
        bounded: bool = True,
    ) -> None:
        super().__init__(geometry)
        if hidden < 1:
            raise ConfigError(f"mlp_bias: hidden must be at least 1, got {hidden}")
        self.inputs = inputs
        self.bounded = bounded
        self.rise = nn.Linear(1, hidden)
        self.fall = nn.Linear(hidden, geometry.heads, bias=False)
        for layer in (self.rise, self.fall):
            nn.init.trunc_normal_(layer.weight, std=0.02)
        nn.init.zeros_(self.rise.bias)

    def offset_bias(self, offsets: Tensor) -> Tensor:
        share = -offsets.double() / max(self.geometry.length - 1, 1)
        if self.inputs == "log":
            share = share.sign() * torch.log1p(8 * share.abs()) / math.log(8)
        wide = torch.promote_types(self.rise.weight.dtype, torch.float32)
        units = F.relu(apply_wide(self.rise, share.to(wide)[:, None]))
        bias = apply_wide(self.fall, units).T  # (heads, offset)
        return 16 * bias.sigmoid() if self.bounded else bias
