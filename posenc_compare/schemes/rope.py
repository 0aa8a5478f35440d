"""Rotary position embedding (RoPE).

Turns each pair of query and key channels by an angle that grows with the position,
so that the logits depend on the distance between the two tokens alone.

Source: Su et al. 2021, arXiv:2104.09864, section 3.2.2 and equation 34.
Layout: adjacent pairs (0, 1), (2, 3), ... as in the paper; half pairs channel i with
i + d/2, as GPT-NeoX and most released checkpoints. `fraction` turns only the first
channels of each head, with the frequencies spread over those (GPT-J, GPT-NeoX); it
is not p-RoPE, which keeps the frequencies of the whole head.
"""

from typing import Literal

import torch
from einops import rearrange
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.base import Geometry, Scheme, register
from posenc_compare.schemes.frequencies import position_angles

PAIRS = {"adjacent": "(pair two)", "half": "(two pair)"}


@register("rope", family="rotary", source="Su et al. 2021, arXiv:2104.09864")
class Rope(Scheme):
    """Rotate queries and keys by their position. Has no parameters.

    Args:
        geometry: `head_dim` is the width of what is turned.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        fraction: share of each head's channels that turn, in (0, 1].
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        fraction: float = 1.0,
    ) -> None:
        super().__init__(geometry)
        within = 0 < fraction <= 1
        self.turned = round(geometry.head_dim * fraction) if within else 0
        if self.turned < 2:
            raise ConfigError(
                f"rope: fraction must be in (0, 1] and turn at least one pair of "
                f"{geometry.head_dim} channels, got {fraction}"
            )
        if self.turned % 2:
            what = "head_dim" if fraction == 1 else "fraction * head_dim"
            raise ConfigError(f"rope: {what} must be even, got {self.turned}")
        self.base = base
        self.layout = layout

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return self._turn(q, positions)

    def key(self, k: Tensor, positions: Tensor) -> Tensor:
        return self._turn(k, positions)

    def angles(self, positions: Tensor) -> Tensor:
        return position_angles(positions, self.turned // 2, self.base)

    def _turn(self, x: Tensor, positions: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        angle = self.angles(positions)[..., None, :, :]  # (..., 1, seq, pair)
        turn = torch.polar(torch.ones_like(angle), angle)
        turn = turn.to(torch.promote_types(wide.dtype, torch.complex64))
        pairs = rearrange(
            wide[..., : self.turned],
            f"... {PAIRS[self.layout]} -> ... pair two",
            two=2,
        )
        turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
        turned = rearrange(turned, f"... pair two -> ... {PAIRS[self.layout]}")
        return torch.cat([turned, wide[..., self.turned :]], dim=-1).to(x.dtype)
