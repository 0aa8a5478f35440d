"""Continuous relative position bias of two axes (Swin Transformer V2).

Adds to each logit what a small perceptron makes of the signed distances along rows and
columns, so that it is defined on images of every size.

Formula: `bias[h, i, j] = 16 * sigmoid(f_h(s(i_r - j_r), s(i_c - j_c)))`, where f is
trained and `s(x) = sign(x) * log2(1 + 8 |x| / most) / 3`.
Source: Liu et al. 2021, arXiv:2111.09883; perceptron, input and bound are those of
transformers' port (swinv2), which was read, and the start is that of `mlp_bias`.
Sign: query minus key. Positions are (row, column).
Scale: most is the largest distance along an axis of the trained image, so that larger
images have larger inputs, as with the port's pretrained_window_size. Without that
option the port takes the window at hand.
Swin V2 has cosine attention and windows beside it; this is the bias alone.
Ids are whole: the perceptron runs for each pair of different distances along the two
axes, of which scattered real positions have as many as the fourth power of the tokens.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    WholeBias,
    register,
)
from posenc_compare.schemes.shared.blocks import image_sides
from posenc_compare.schemes.shared.distinct import distinct
from posenc_compare.schemes.shared.layers import apply_wide


@register(
    "mlp_bias_2d",
    family="bias",
    source="Liu et al. 2021, arXiv:2111.09883",
    axes=2,
    oracles="transformers 1e-10",
    checked="transformers, paper not opened",
)
class MlpBias2d(Scheme):
    """Add a perceptron of the signed distances along two axes.

    `(3 + heads) * hidden` parameters.

    Args:
        geometry: `heads` outputs.
        hidden: units of the perceptron.
        height: rows of the trained image; 0 means the smallest square that holds
            `length`.
        width: its columns; 0 likewise.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        hidden: int = 512,
        height: int = 0,
        width: int = 0,
    ) -> None:
        super().__init__(geometry)
        if hidden < 1:
            raise ConfigError(f"mlp_bias_2d: hidden must be at least 1, got {hidden}")
        self.sides = image_sides("mlp_bias_2d", geometry, height, width)
        self.rise = nn.Linear(2, hidden)
        self.fall = nn.Linear(hidden, geometry.heads, bias=False)
        for layer in (self.rise, self.fall):
            nn.init.trunc_normal_(layer.weight, std=0.02)
        nn.init.zeros_(self.rise.bias)

    def pair_bias(self, call: Call) -> PairBias:
        away = call.q_positions[:, :, None] - call.k_positions[:, None]
        rows, row = distinct(away[..., 0])
        columns, column = distinct(away[..., 1])
        down, across = (
            self._share(part, axis) for axis, part in enumerate((rows, columns))
        )
        wide = torch.promote_types(self.rise.weight.dtype, torch.float32)
        inputs = torch.cartesian_prod(down, across).view(-1, 2).to(wide)
        bias = apply_wide(self.fall, F.relu(apply_wide(self.rise, inputs)))
        bias = 16 * bias.T.sigmoid()  # (heads, pair of distances)
        place = row * len(columns) + column
        batch = call.q.shape[0]
        each = place.expand(batch, -1, -1)
        return WholeBias(
            lambda b, h, i, j: bias[h, each[b, i, j]],
            lambda: bias[:, place].movedim(0, 1),
        )

    def _share(self, distances: Tensor, axis: int) -> Tensor:
        """Return the input for distances along an axis, float64."""
        share = 8 * distances.double() / max(self.sides[axis] - 1, 1)
        return share.sign() * torch.log2(1 + share.abs()) / math.log2(8)
