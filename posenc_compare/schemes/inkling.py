"""Inkling's bias of content and distance.

Every token mixes a few trained profiles of the distance, with weights of its own for
each head. The mixture is added to its logits for its own key and earlier ones, up to a
reach.

Formula: `bias[h, i, j] = sum_m r_h(x_i)[m] P[m, i - j]` for `0 <= i - j < reach`, and 0
for other keys, where `r_h(x) = W_h x`, and P are `rank` profiles for all heads.
Source: no paper; Thinking Machines 2026, from the port of Inkling in transformers
(modeling_inkling.py, InklingRelativeLogits). The bias of x-transformers
(RelativeProjPositionalBias) is the same, but adds a constant to r.
Clip: Inkling 2 (modeling_inkling2.py) shortens r to a norm of at most 8; `clip` does.
The scale that it trains for each channel of r is a factor of W here.
Scale: the bias is added as it is, not divided by sqrt(head_dim).
Reach: 1024 tokens in both, 512 in layers with a window of 512. The lengths that they
were trained at were not found.
Direction: keys in the future have a bias of 0.
Initial values: normal with a standard deviation of 0.02, the default of that port.
Left out: the networks normalise or clip queries and keys, mix neighbours by short
convolutions, and scale logits at far positions. None of this is part of the bias.
"""

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
    gather_bias,
    register,
)
from posenc_compare.schemes.shared.layers import apply_wide

STD = 0.02  # of all initial values
TINY = 1e-6  # added to a norm, as in the port


@register(
    "inkling",
    family="contextual",
    source="Thinking Machines 2026, github.com/huggingface/transformers",
    identities="equals `nope` if the profiles or the mixtures are 0",
    oracles="transformers 3e-7, x-transformers 1e-7",
    checked="two public ports that agree on the bias; no paper was found",
)
class Inkling(Scheme):
    """Add trained profiles of the distance, mixed by the query's token.

    `model_dim * heads * rank + rank * reach` parameters.

    Args:
        geometry: `model_dim` channels make `heads` mixtures.
        rank: number of profiles.
        reach: distance in tokens from which the bias is 0; 0 means the geometry's
            length.
        clip: largest norm of a mixture; 0 means no limit, 8 is Inkling 2.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self, geometry: Geometry, *, rank: int = 16, reach: int = 0, clip: float = 0.0
    ) -> None:
        super().__init__(geometry)
        if rank < 1:
            raise ConfigError(f"inkling: rank must be at least 1, got {rank}")
        if reach < 0:
            raise ConfigError(f"inkling: reach must be 0 or more, got {reach}")
        if clip < 0:
            raise ConfigError(f"inkling: clip must be 0 or more, got {clip}")
        self.reach = reach or geometry.length
        self.clip = clip
        self.mix = nn.Linear(geometry.model_dim, geometry.heads * rank, bias=False)
        self.profiles = nn.Parameter(torch.randn(rank, self.reach) * STD)
        nn.init.normal_(self.mix.weight, std=STD)

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """Return the mixtures r of every token, `(batch, key, heads, rank)`."""
        made = apply_wide(self.mix, x).unflatten(-1, (self.geometry.heads, -1))
        if self.clip:
            norm = made.norm(dim=-1, keepdim=True)
            made = made * (self.clip / (norm + TINY)).clamp(max=1)
        return made if past is None else torch.cat([past, made], dim=1)

    def pair_bias(self, call: Call) -> PairBias:
        if call.state is None:
            raise ConfigError(
                "inkling: needs the state that token_state returns, got none"
            )
        start, count = call.past, call.sizes[0]
        mixtures = call.state[:, start : start + count].transpose(1, 2)
        rows = mixtures @ F.pad(self.profiles, (0, 1)).to(mixtures.dtype)
        distance = call.q_positions[:, :, None] - call.k_positions[:, None, :]
        seen = (distance >= 0) & (distance < self.reach)
        return gather_bias(rows, distance.where(seen, self.reach))
