"""Rotary positions of an image from -1 to 1 (DINOv3).

Rotates pairs of query and key channels by the row and the column of an image patch,
measured in sides of the image. So a larger image has the same angles, more finely.
Training may move, stretch and scale all positions at random.

Formula: a pair rotates by `2 pi c base ** (-4 m / d)` with `c = 2 (p + 1/2) / side - 1`
on one axis, where p counts from the first row or column of the image.
Source: Siméoni et al. 2025, arXiv:2508.10104 (DINOv3); all of this is from
transformers' port (dinov3_vit), which was read, the authors' code was not.
Order: the first half of the pairs rotates by the row, the second by the column.
Layout: `half` pairs channel i with i + d/2, as released.
Training: `c` becomes `(c + shift) * jitter * rescale`. The shift is uniform, and the
factors are log-uniform. Shift and jitter are drawn for each axis, rescale for both,
once a pass. The port's defaults are no shift, no jitter and a rescale of up to 2.
Outside a pass, where the image is unknown, its sides are those of training.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Facts, Geometry, register
from posenc_compare.schemes.shared.blocks import image_sides
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.rotation import Rotation

FAULT = "coordinates span the whole image, so cells beyond a part of it count"


@register(
    "rope_dinov3",
    family="rotary",
    source="Siméoni et al. 2025, arXiv:2508.10104",
    axes=2,
    own_text=True,
    identities="on its own image a shift changes no logit",
    oracles="transformers 4e-7, timm 4e-7",
    checked="transformers, paper not opened",
)
class RopeDinov3(Rotation):
    """Rotate by row and column in sides of the image. Has no parameters.

    Args:
        geometry: `head_dim` channels, a multiple of 4, are rotated.
        base: the slowest pair rotates nearly this many times less than the fastest.
        shift: largest shift in training; the image has a side of 2.
        jitter: largest factor of each axis in training; the smallest is its inverse.
        rescale: largest factor of both axes in training, likewise.
        layout: which two channels make a pair.
        height: rows of the trained image; 0 means the smallest square that holds
            `length`.
        width: its columns; 0 likewise.
    """

    facts = Facts(known_faults=dict.fromkeys(("C18", "C21"), FAULT))

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 100.0,
        shift: float = 0.0,
        jitter: float = 1.0,
        rescale: float = 2.0,
        layout: Literal["adjacent", "half"] = "half",
        height: int = 0,
        width: int = 0,
    ) -> None:
        super().__init__(geometry, base, layout)
        if geometry.head_dim % 4:
            raise ConfigError(
                f"rope_dinov3: head_dim must be a multiple of 4, got "
                f"{geometry.head_dim}"
            )
        if shift < 0 or jitter < 1 or rescale < 1:
            raise ConfigError(
                f"rope_dinov3: shift must be at least 0, jitter and rescale at least "
                f"1, got {shift}, {jitter} and {rescale}"
            )
        self.shift, self.jitter, self.rescale = shift, jitter, rescale
        self.sides = image_sides("rope_dinov3", geometry, height, width)

    def draw(self, positions: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return step and start of the coordinates, `(..., 2, axis)` float64."""
        if not positions.numel():
            return _coordinates(positions.new_tensor(self.sides))
        low, high = positions.amin(dim=-2), positions.amax(dim=-2)
        step, start = _coordinates(high - low + 1).unbind(dim=-2)
        start = start - low * step
        if self.training and generator is not None:
            each, both = _drawn(2, generator), _drawn(1, generator)
            moved = self.shift * _drawn(2, generator)
            factor = self.jitter**each * self.rescale**both
            factor, moved = factor.to(step.device), moved.to(step.device)
            step, start = step * factor, (start + moved) * factor
        return torch.stack([step, start], dim=-2)

    def angles(self, positions: Tensor) -> Tensor:
        sides = torch.tensor(self.sides, device=positions.device)
        return self._angles(positions, _coordinates(sides))

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self.rotated(q, positions, call, self._phasors_of(call))

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self.rotated(k, positions, call, self._phasors_of(call))

    def _phasors_of(self, call: Call | None) -> Callable[[Tensor], Tensor]:
        """Return what makes phasors for the image of a call."""
        drawn = None if call is None else call.drawn
        if drawn is None:
            return self.phasors

        def phasors(positions: Tensor) -> Tensor:
            angles = self._angles(positions, drawn)[..., None, :, :]
            return torch.polar(torch.ones_like(angles), angles)

        return phasors

    def _angles(self, positions: Tensor, coordinates: Tensor) -> Tensor:
        step, start = coordinates[..., None, :].unbind(dim=-3)
        quarter = self.geometry.head_dim // 4
        inv_freq = inverse_frequencies(quarter, self.base, positions.device)
        place = (positions * step + start).unsqueeze(-1)  # (..., seq, axis, 1)
        return (2 * math.pi * place * inv_freq).flatten(-2)


def _coordinates(sides: Tensor) -> Tensor:
    """Return step and start of coordinates from -1 to 1, `(..., 2, axis)` float64."""
    step = 2 / sides.double()
    return torch.stack([step, step / 2 - 1], dim=-2)


def _drawn(count: int, generator: torch.Generator) -> Tensor:
    """Return numbers from -1 to 1, float64."""
    return 2 * torch.rand(count, generator=generator, dtype=torch.float64) - 1
