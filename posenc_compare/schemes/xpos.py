"""Extrapolatable positions (xPos).

Rotates queries and keys as RoPE does, and lets each pair of channels fade with the
distance between the two tokens, fast pairs sooner than slow ones.

Formula: a product of RoPE's pair m is multiplied by
`zeta_m ** ((query - key) / scale_base)`, `zeta_m = (2 m / d + gamma) / (1 + gamma)`.
Source: Sun et al. 2022, arXiv:2212.10554, section 3.2, equations 9 and 10; gamma and
scale base as in the authors' torchscale (component/xpos_relative_position.py). A
`scale_base` of 1 is the paper's. Growth counts from a fixed centre, which cancels.
Direction: queries grow with the position as keys shrink. Keys in the future would be
amplified; xPos is refused without a causal mask.
Layout: `adjacent` pairs (0, 1), (2, 3), ... in the paper and all ports; `half` pairs
channel i with i + d/2.
Length: the scale base of 512 is the default of torchscale, here for a training length
of 1024.
"""

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    Published,
    assert_in_graph,
    register,
)
from posenc_compare.schemes.shared.frequencies import position_angles
from posenc_compare.schemes.shared.rotation import Rotation, pair_count


@register(
    "xpos",
    family="rotary",
    source="Sun et al. 2022, arXiv:2212.10554",
    real=True,
    identities="the centre cancels in products of query and key",
    oracles="x-transformers 1e-7, rotary-embedding-torch 1e-7",
    checked="paper, authors' code; they differ, see `scale_base`; unverified: the "
    "length that the paper trains at",
)
class Xpos(Rotation):
    """Rotate, and fade with the distance, pair by pair. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        gamma: pair m of n fades by `(m / n + gamma) / (1 + gamma)`.
        scale_base: that is per so many positions. 0 means half the training length,
            512 of 1024 in the paper.
        centre: position where nothing grows or shrinks; -1 means half the geometry's
            length. Positions too far from it would leave the range of the dtype and
            are refused, in float32 from 66 times the scale base on.
    """

    facts = Facts(causal_only=True)
    published: ClassVar = {"scale_base": Published(512, trained_at=1024)}

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        gamma: float = 0.4,
        scale_base: float = 0.0,
        centre: int = -1,
    ) -> None:
        super().__init__(geometry, base, layout)
        self.pairs = pair_count("xpos", geometry.head_dim)
        scale_base = scale_base or geometry.positions(self.published["scale_base"])
        if gamma <= 0 or scale_base <= 0:
            raise ConfigError(
                f"xpos: gamma and scale_base must be above 0, got {gamma} and "
                f"{scale_base}"
            )
        if centre < -1:
            raise ConfigError(f"xpos: centre must be at least -1, got {centre}")
        self.gamma = gamma
        self.scale_base = scale_base
        self.centre = geometry.length // 2 if centre == -1 else centre

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        self._check_window(q.dtype, positions)
        return self.rotated(q, positions, call, self.growing)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        self._check_window(k.dtype, positions)
        return self.rotated(k, positions, call, self.shrinking)

    def angles(self, positions: Tensor) -> Tensor:
        return position_angles(positions, self.pairs, self.base)

    def growth(self, positions: Tensor) -> Tensor:
        """Return `(..., seq, pair)` float64 factors of the queries."""
        steps = torch.arange(self.pairs, device=positions.device)
        zeta = (steps.double() / self.pairs + self.gamma) / (1 + self.gamma)
        return zeta ** ((positions - self.centre)[..., None].double() / self.scale_base)

    def growing(self, positions: Tensor) -> Tensor:
        """Return complex128 phasors of the queries, `(..., 1, seq, pair)`."""
        growth = self.growth(positions)
        return torch.polar(growth, self.angles(positions))[..., None, :, :]

    def shrinking(self, positions: Tensor) -> Tensor:
        """Return complex128 phasors of the keys, `(..., 1, seq, pair)`."""
        growth = self.growth(positions) ** -1
        return torch.polar(growth, self.angles(positions))[..., None, :, :]

    def _check_window(self, dtype: torch.dtype, positions: Tensor) -> None:
        """Raise if a factor, or a channel of 256 times it, leaves the dtype's range."""
        range_ = math.log(torch.finfo(dtype).max / 256)
        fading = math.log((1 + self.gamma) / self.gamma) / self.scale_base
        window = math.floor(range_ / fading)
        near = (positions - self.centre).abs() <= window
        if assert_in_graph(
            near, f"xpos: positions must be at most {window} from the centre"
        ):
            return
        far = positions[~near]
        if far.numel():
            low, high = (int(end) for end in positions.aminmax())
            middle = (low + high) // 2
            raise UndefinedPositionError(
                "xpos",
                self.centre + window + 1,
                int(far[0]),
                advice=f"centre={middle}" if high - middle <= window else "",
                least=self.centre - window,
            )
