"""Rotary positions of latent attention: one rotary key for all heads.

Rotates the last channels of each head as RoPE does. All heads share these channels of
the key, so a cache of latent vectors stores them once. The first channels are not
rotated.

Formula: a head is `[c, r]`. Its logit is `(c_q . c_k + R(i) r_q . R(j) r_k) / sqrt(d)`
with `r_k` of the first head for all heads. R(p) rotates pair m of n by
`p * base ** (-m / n)`.
Source: Liu et al. 2024 (DeepSeek-V2), arXiv:2405.04434, decoupled RoPE; formula as in
transformers (modeling_deepseek_v3).
Layout: adjacent pairs the channels (0, 1), (2, 3), ... of r, half channel i with
i + n.
Scaling: DeepSeek sets `attention` to 1 beside scaling=yarn, and multiplies all logits
instead.
Shared key: a model with latent attention projects one key r for all heads, and the
scheme leaves it as it is. A model of this package projects a key for each head, and the
scheme takes the r of the first head for all.
"""

from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Facts, Geometry, register
from posenc_compare.schemes.shared.rotation import pair_count
from posenc_compare.schemes.shared.scaled_rotation import ScaledRotation
from posenc_compare.schemes.shared.scaling import Scaling


@register(
    "rope_latent",
    family="rotary",
    source="Liu et al. 2024, arXiv:2405.04434",
    real=True,
    identities="the last channels are `rope` of a smaller head",
    oracles="transformers 1e-7",
    checked="transformers, paper not opened",
)
class RopeLatent(ScaledRotation):
    """Rotate the last channels, with one key for all heads. Has no parameters.

    Args:
        geometry: `head_dim` channels, of which the last are rotated.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        fraction: share of each head's channels that are rotated, in (0, 1], rounded
            to whole pairs. DeepSeek rotates 64 of 192.
        scaling: the rule that slows the rotations.
        factor: of a scaling; this and the options below are those of `rope`.
        original: positions that were trained; 0 means the geometry's length.
        alpha: rotations up to which a pair is slowed by the whole factor.
        beta: rotations from which a pair keeps its frequency; 0 means as published.
        factors: of longrope, the divisor of each pair.
        truncate: of yarn, whether the passage between fast and slow pairs begins and
            ends at whole pairs.
        attention: of yarn, the factor on cosines and sines; 0 means as published.
    """

    facts = Facts(mixes_heads=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        fraction: float = 1 / 3,
        scaling: Literal[
            "none",
            "pi",
            "ntk",
            "ntk_dynamic",
            "ntk_by_parts",
            "yarn",
            "llama3",
            "longrope",
        ] = "none",
        factor: float = 0.0,
        original: int = 0,
        alpha: float = 1.0,
        beta: float = 0.0,
        factors: str = "",
        truncate: bool = True,
        attention: float = 0.0,
    ) -> None:
        super().__init__(geometry, base, layout)
        if not 0 < fraction <= 1:
            raise ConfigError(
                f"{self.name}: fraction must be in (0, 1], got {fraction}"
            )
        pair_count(self.name, geometry.head_dim)
        self.rotated_dims = 2 * max(1, round(fraction * geometry.head_dim / 2))
        self.scaling = Scaling.of(
            self.name,
            scaling,
            geometry.length,
            {"factor": factor, "original": original, "alpha": alpha}
            | {"beta": beta, "factors": factors}
            | {"truncate": truncate, "attention": attention},
        )
        self.scaling.check_pairs(self.rotated_dims // 2)

    def turning(self, x: Tensor, pairs: int) -> Tensor:
        return x[..., -2 * pairs :]

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
