"""Rotary positions of latent attention: one rotary key for all heads.

Rotates the last channels of each head as RoPE does. Keys of all heads have the same
numbers there, so that a cache of latent vectors stores them once. The first channels
are left alone.

Formula: a head is `[c, r]`. Its logit is `(c_q . c_k + R(i) r_q . R(j) r_k) / sqrt(d)`
with `r_k` of the first head for all heads. R(p) rotates pair m of n by
`p * base ** (-m / n)`.
Source: Liu et al. 2024 (DeepSeek-V2), arXiv:2405.04434, decoupled RoPE; formula as in
transformers (modeling_deepseek_v3).
Layout: adjacent pairs the channels (0, 1), (2, 3), ... of r, half channel i with
i + n.
Scaling: DeepSeek sets `attention` to 1 beside scaling=yarn, and multiplies all logits
instead.
Shared key: a network that projects one key to r has it in every head, and nothing is
replaced. In a network of this package, the projection of the first head serves all.
"""

from typing import Any

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.rope import Rope
from posenc_compare.schemes.scheme import Call, Facts, Geometry, register
from posenc_compare.schemes.shared.rotation import pair_count


@register("rope_latent", family="rotary", source="Liu et al. 2024, arXiv:2405.04434")
class RopeLatent(Rope):
    """Rotate the last channels, with one key for all heads. Has no parameters.

    Args:
        geometry: `head_dim` channels, of which the last are rotated.
        fraction: share of each head's channels that are rotated, in (0, 1], rounded
            to whole pairs. DeepSeek rotates 64 of 192.
        **options: of `rope`.
    """

    facts = Facts(mixes_heads=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        fraction: float = 1 / 3,
        **options: Any,
    ) -> None:
        if not 0 < fraction <= 1:
            raise ConfigError(
                f"{self.name}: fraction must be in (0, 1], got {fraction}"
            )
        pair_count(self.name, geometry.head_dim)
        pairs = max(1, round(fraction * geometry.head_dim / 2))
        share = 2 * pairs / geometry.head_dim
        super().__init__(geometry, fraction=share, **options)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        still, turning = self._parts(q)
        return torch.cat([still, super().query(turning, positions, call)], dim=-1)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        still, turning = self._parts(k)
        turned = super().key(turning[:, :1], positions, call)
        return torch.cat([still, turned.expand_as(turning)], dim=-1)

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the channels that are left alone, and those that are rotated."""
        first = x.shape[-1] - self.rotated_dims
        return x[..., :first], x[..., first:]
