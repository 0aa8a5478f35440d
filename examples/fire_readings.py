"""Why does FIRE lose beyond its training length? The same weights, read in three ways.

posenc-compare run --plugin fire_readings.py --schemes fire_read --preset survey \
    --measures extrapolation --seeds 6 --yes

FIRE measures a distance as a share of how far back the query can look. A query beyond
the training length looks back farther than any in training, so all its shares fall,
that of the last token too. Each reading takes away one more thing that is new there.
"""

from copy import deepcopy

import torch
from torch import Tensor

from posenc_compare.schemes import Scheme, register
from posenc_compare.schemes.fire import Fire

HELD = "shares of the training length"
CLAMPED = "far tokens as the farthest trained"
WINDOW = "no far tokens"


@register("fire_read", family="bias", source="own example")
class FireRead(Fire):
    """FIRE; a test beyond the training length reads it in other ways, too."""

    reading = ""

    def schemes_for_length(self, length: int) -> dict[str, Scheme]:
        found: dict[str, Scheme] = {}
        for reading in (HELD, CLAMPED, WINDOW) if length > self.geometry.length else ():
            other = deepcopy(self)
            other.reading = reading
            found[reading] = other
        return found

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        as_trained = super().bias(q_positions, k_positions)
        if not self.reading:
            return as_trained
        last = torch.full_like(q_positions[:1, :1], self.geometry.length - 1)
        distance = (q_positions[:, :, None] - k_positions[:, None, :]).clamp(min=0)
        asked = distance if self.reading == HELD else distance.minimum(last[..., None])
        by_distance = super().bias(last, last - torch.arange(int(asked.max()) + 1))
        held = by_distance[0, 0, asked]
        if self.reading == WINDOW:
            held = held.masked_fill((distance > last[..., None])[..., None], -1e4)
        return torch.where((q_positions > last)[..., None, None], held, as_trained)
