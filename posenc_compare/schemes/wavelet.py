"""Wavelets of the distance.

Every channel of a head has a small wave of its own width and place, and the query is
compared with the waves at the distance of the key: some channels see what is near
finely, others what is far coarsely.

Formula: logits `q_i (k_j + p(i - j)) / sqrt(d)`, channel (a, b) of p(t) being
`psi((t - b) / a)`, with psi(u) = (1 - u^2) exp(-u^2 / 2), the Ricker wavelet, or
exp(-u^2), the Gaussian; a are powers of two and b whole numbers from 0.
Source: Oka et al. 2025, arXiv:2502.02004, equations 10 to 14, from a copy of the text.
Left out: the Haar and Morlet waves of its table 1, whose sign of the distance and
whose frequency the text does not settle.
Sizes: eight widths a head, as the paper has for 128 channels; a head that eight does
not divide has fewer.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Geometry,
    PairBias,
    Scheme,
    gather_bias,
    register,
)
from posenc_compare.schemes.shared.distinct import distinct
from posenc_compare.transfer import to_device

SCALES = 8  # of the paper


@register(
    "wavelet",
    family="contextual",
    source="Oka et al. 2025, arXiv:2502.02004",
    real=True,
    identities="wavelets have zero mean",
    checked="paper (a copy of its text)",
)
class Wavelet(Scheme):
    """Compare the query with fixed waves of the distance, one for each channel.

    Args:
        geometry: `head_dim` waves.
        scales: how many widths, 1, 2, 4, ... tokens, at most 64; it must divide
            `head_dim`. 0 means 8, or the largest power of two below that divides.
        wave: the shape of all.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        scales: int = 0,
        wave: Literal["ricker", "gaussian"] = "ricker",
    ) -> None:
        super().__init__(geometry)
        width = geometry.head_dim
        scales = scales or math.gcd(SCALES, width)
        if not 1 <= scales <= 64 or width % scales:
            raise ConfigError(
                f"wavelet: scales must be from 1 to 64 and divide head_dim {width}, "
                f"got {scales}"
            )
        self.scales, self.shifts, self.wave = scales, width // scales, wave

    def table(self, distances: Tensor) -> Tensor:
        """Return the waves at every distance, `(..., head_dim)` float64.

        Args:
            distances: `(...)`, query minus key, in tokens.
        """
        widths = to_device(
            torch.exp2(torch.arange(self.scales).double()), distances.device
        )
        shift = torch.arange(self.shifts, device=distances.device)
        moved = (distances[..., None] - shift).double()
        u = (moved[..., None, :] / widths[:, None]).flatten(-2)
        if self.wave == "gaussian":
            return torch.exp(-u.square())
        return (1 - u.square()) * torch.exp(-u.square() / 2)

    def pair_bias(self, call: Call) -> PairBias:
        wide = torch.promote_types(call.q.dtype, torch.float32)

        def made() -> tuple[Tensor, Tensor]:
            distance = call.q_positions[:, :, None] - call.k_positions[:, None, :]
            steps, place = distinct(distance)
            return self.table(steps).to(wide).mT, place

        waves, place = call.once(self, f"waves in {wide}", call.q_positions, made)
        products = call.q.to(wide) @ waves  # (..., query, step)
        return gather_bias(products * self.scale(call.q.shape[-1]), place)
