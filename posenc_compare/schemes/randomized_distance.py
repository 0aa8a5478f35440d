"""Randomized distances.

Reads a distance bias at random distances: the d-th token back is as far as the d-th
smallest of a sample from a range longer than any sequence. Neighbours keep their
order, and equal distances stay equal.

Source: Ruoss et al. 2023, arXiv:2305.16843; the rule is that of the authors' released
code for ALiBi and relative encodings (models/positional_encodings.py): 0 stays 0, the
others are drawn without replacement from 1 to `longest` - 1, in training and testing.
Direction: the same distances serve past and future, the code's default. Its half step
between past and future for ALiBi is left out. As in the code, one draw serves the
batch, here for all layers; the code draws anew in each.
Convention: `positions` draws the distances, and `offset_bias` reads them. Ids keep
their order and gaps; each carries a mark of the draw above its low 32 bits, so that
ids of an earlier draw are refused and never read at the distances of a later one.
Without a generator, ids and distances stay as they are.
"""

import zlib

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.schemes.call import Call, Geometry
from posenc_compare.schemes.contract import check_axes
from posenc_compare.schemes.scheme import DOORS, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant

MARK = 1 << 32  # ids of one draw lie within this of each other


@register(
    "randomized_distance",
    family="bias",
    source="Ruoss et al. 2023, arXiv:2305.16843",
)
class RandomizedDistance(Wrapper):
    """Give any bias of the offset alone rising random distances.

    Args:
        geometry: passed on.
        scheme: the scheme with the bias.
        longest: distances are below it; no sequence may be longer.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        scheme: Variant = Variant("alibi"),
        longest: int = 2048,
    ) -> None:
        if longest < 1:
            raise ConfigError(
                f"randomized_distance: longest must be at least 1, got {longest}"
            )
        super().__init__(geometry, scheme.build(geometry))
        check_axes(self)
        doors = {door for door in DOORS if self.inner.acts_at(door)} - {"scale"}
        if doors != {"offset_bias"} or self.inner.facts.per_layer:
            raise ConfigError(
                f"randomized_distance: scheme must have a bias of the offset alone and "
                f"one instance for all layers, got {scheme.label}"
            )
        self.longest = longest
        self.distances: Tensor | None = None
        self.mark = 0

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        self.distances, self.mark = None, 0
        if generator is not None and positions.numel():
            low, high = positions.aminmax(dim=-1)
            count = int((high - low).max())
            self._check(count)
            drawn = torch.randperm(self.longest - 1, generator=generator)[:count] + 1
            drawn = torch.cat([drawn.new_zeros(1), drawn.sort().values])
            self.distances = drawn.to(positions.device)
            self.mark = 1 + zlib.crc32(drawn.numpy().tobytes()) // 4  # of 30 bits
        return positions + self.mark * MARK

    def check_call(self, call: Call) -> None:
        for ids in (call.q_positions, call.k_positions):
            if bool(((ids + MARK // 2) // MARK != self.mark).any()):
                raise ConfigError(
                    "randomized_distance: ids must be those of the last draw, got "
                    "others; what `positions` returned last would work"
                )

    def offset_bias(self, offsets: Tensor) -> Tensor | None:
        if self.distances is not None:
            offsets = (offsets + MARK // 2) % MARK - MARK // 2  # ids count as offsets
            offsets = offsets.sign() * self.distances[offsets.abs()]
        return self.inner.offset_bias(offsets)

    def _check(self, distance: int) -> None:
        if distance >= self.longest:
            raise UndefinedPositionError(self.name, self.longest, distance)
