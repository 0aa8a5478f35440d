"""Functional interpolation for relative positions (FIRE).

Adds to each logit a small perceptron of the distance, measured on a logarithmic scale
as a share of how far back the query can look at all.

Formula: `f(s(i - j) / (s(max(i, L)) + epsilon))`, `s(x) = log(|c x| + 1)`, f trained.
Source: Li et al. 2023, arXiv:2310.04418; constants as in the code that is passed on
publicly (mcleish7/arithmetic, chuanyang-Zheng/DAPE), no release by the authors found.
Direction: causal. The share is that of the query's position, counted from 0, once it
exceeds the threshold; up to there the bias depends on the distance alone.
Length: the threshold starts at 512 in that code, which gives 2048 as the length before
extension. That is taken as the training length.
Layers: each has its own perceptron, whose start is torch's own.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Published,
    Scheme,
    WholeBias,
    register,
)
from posenc_compare.schemes.shared.layers import apply_wide

EPSILON = 1e-6
ROWS = 128  # queries at once, which bounds the memory of hidden units


@register(
    "fire",
    family="bias",
    source="Li et al. 2023, arXiv:2310.04418",
    real=True,
    identities="relative up to the threshold",
    checked="code that others redistribute; unverified: a perceptron for each layer",
)
class Fire(Scheme):
    """Add a perceptron of the normalised log distance.

    `2 + 2 * hidden + (hidden + 1) * heads` parameters.

    Args:
        geometry: `heads` outputs of the perceptron.
        threshold: position of the query up to which shares are of this, in tokens;
            a trained factor, at first 1, stretches it. 0 means a quarter of the
            training length, 512 of 2048 in the paper.
        c: first value of the trained scale of distances, per token.
        hidden: units of the perceptron.
    """

    facts = Facts(per_layer=True, relative=False, causal_only=True)
    published: ClassVar = {"threshold": Published(512, trained_at=2048)}

    def __init__(
        self,
        geometry: Geometry,
        *,
        threshold: float = 0.0,
        c: float = 0.1,
        hidden: int = 32,
    ) -> None:
        super().__init__(geometry)
        threshold = threshold or geometry.positions(self.published["threshold"])
        for name, value in (("threshold", threshold), ("c", c), ("hidden", hidden)):
            if not value > 0:
                raise ConfigError(f"fire: {name} must be greater than 0, got {value}")
        self.threshold = threshold
        self.c = nn.Parameter(c * torch.ones(1))
        self.stretch = nn.Parameter(torch.ones(1))
        self.rise = nn.Linear(1, hidden)
        self.fall = nn.Linear(hidden, geometry.heads)

    def pair_bias(self, call: Call) -> PairBias:
        blocks = call.q_positions.split(ROWS, dim=1)
        rows = [self.bias(block, call.k_positions) for block in blocks]
        bias = torch.cat(rows, dim=1).expand(call.q.shape[0], -1, -1, -1)
        return WholeBias(
            lambda b, h, i, j: bias[b, i, j, h],
            lambda: bias.permute(0, 3, 1, 2).contiguous(),
        )

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the bias of every pair, `(batch or 1, query, key, head)`."""
        distance = (q_positions[:, :, None] - k_positions[:, None, :]).abs().double()
        normalizer = q_positions.double().maximum((self.stretch * self.threshold).abs())
        share = self._log(distance) / (self._log(normalizer)[:, :, None] + EPSILON)
        wide = torch.promote_types(self.rise.weight.dtype, torch.float32)
        units = F.relu(apply_wide(self.rise, share.to(wide)[..., None]))
        return apply_wide(self.fall, units)

    def _log(self, distance: Tensor) -> Tensor:
        return torch.log1p((self.c * distance).abs())
