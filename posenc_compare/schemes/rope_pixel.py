"""Rotary positions of an image at pixel frequencies.

Rotates pairs of query and key channels by the row and the column of an image patch.
Both run from -1 to 1 over the image, and frequencies are evenly spaced. So a larger
image samples the same range of angles more finely.

Formula: a pair rotates by `pi f c` with `c = 2 p / (side - 1) - 1` on one axis, where p
counts from the first row or column of the image. A head has `d / 4` frequencies f, from
1 to `max_freq / 2`.
Source: no paper; rotary-embedding-torch (Wang 2021, freqs_for='pixel') and timm
(RotaryEmbeddingCat), which were read. eva_02: Fang et al. 2023, arXiv:2303.11331; the
authors' code (asuka/rope.py) was read, the paper was not.

| kind   | frequencies f                       | as in                                 |
|--------|-------------------------------------|---------------------------------------|
| linear | evenly spaced                       | rotary-embedding-torch; timm's option |
| log    | each the same multiple of the last  | timm's default                        |
| eva_02 | `base ** (-4 m / d)`                | EVA-02; timm with in_pixels=False     |

With eva_02, pair m of an axis rotates by `f p trained / side`. Here `p trained / side`
is the place in an image of the trained size.
Order: the first half of the pairs rotates by the row, the second by the column.
Layout: `adjacent` pairs (0, 1), (2, 3), ..., as in all three implementations; `half`
pairs channel i with i + d/2.
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
from posenc_compare.schemes.shared.image import extent
from posenc_compare.schemes.shared.rotation import Rotation

EDGE = 0.0
FAULT = "coordinates span the whole image, so cells beyond a part of it count"


@register(
    "rope_pixel",
    family="rotary",
    source="Wang 2021, github.com/lucidrains/rotary-embedding-torch",
    axes=2,
    own_text=True,
    identities="on its own image a shift changes no logit",
    oracles="rotary-embedding-torch 8e-7, timm 6e-7",
    checked="rotary-embedding-torch and timm; `eva_02`: authors' code, paper not "
    "opened",
)
class RopePixel(Rotation):
    """Rotate by row and column at evenly spaced frequencies. Has no parameters.

    Args:
        geometry: `head_dim` channels, a multiple of 4, are rotated.
        kind: how frequencies are spaced; see the header.
        max_freq: twice the largest frequency, in half turns over half of the image;
            ignored by eva_02. The default of timm is 224.
        base: of the frequencies of eva_02; ignored by the other kinds.
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
        kind: Literal["linear", "log", "eva_02"] = "linear",
        max_freq: float = 10.0,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        height: int = 0,
        width: int = 0,
    ) -> None:
        super().__init__(geometry, base, layout)
        if geometry.head_dim % 4:
            raise ConfigError(
                f"rope_pixel: head_dim must be a multiple of 4, got {geometry.head_dim}"
            )
        if not max_freq > 0:
            raise ConfigError(
                f"rope_pixel: max_freq must be greater than 0, got {max_freq}"
            )
        self.kind, self.max_freq = kind, max_freq
        self.sides = image_sides("rope_pixel", geometry, height, width)

    def draw(self, positions: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return step and start of the coordinates, `(..., 2, axis)` float64."""
        if not positions.numel():
            return self._coordinates(positions.new_tensor(self.sides))
        low, high = positions.amin(dim=-2), positions.amax(dim=-2)
        step, start = self._coordinates(high - low + 1).unbind(dim=-2)
        step = step * (high > low)  # a cell alone has none, and packs with no other
        return torch.stack([step, start - low * step], dim=-2)

    def angles(self, positions: Tensor) -> Tensor:
        sides = positions.new_tensor(self.sides)
        return self._angles(positions, self._coordinates(sides))

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

    def _coordinates(self, sides: Tensor) -> Tensor:
        """Return step and start of the coordinates, `(..., 2, axis)` float64."""
        if self.kind == "eva_02":
            step = sides.new_tensor(self.sides).double() / sides
            return torch.stack([step, torch.zeros_like(step)], dim=-2)
        step = 2 / extent(sides, EDGE)
        return torch.stack([step, -torch.ones_like(step)], dim=-2)

    def _angles(self, positions: Tensor, coordinates: Tensor) -> Tensor:
        step, start = coordinates[..., None, :].unbind(dim=-3)
        place = (positions * step + start).unsqueeze(-1)  # (..., seq, axis, 1)
        return (place * self._frequencies(positions.device)).flatten(-2)

    def _frequencies(self, device: torch.device) -> Tensor:
        """Return radians per unit of the coordinates, `(pair,)` float64."""
        quarter, fastest = self.geometry.head_dim // 4, self.max_freq / 2
        if self.kind == "eva_02":
            return inverse_frequencies(quarter, self.base, device)
        exact = {"dtype": torch.float64, "device": device}
        if self.kind == "log":
            return math.pi * fastest ** torch.linspace(0, 1, quarter, **exact)
        return math.pi * torch.linspace(1, fastest, quarter, **exact)
