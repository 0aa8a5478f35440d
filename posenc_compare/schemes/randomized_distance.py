"""Randomized distances.

Reads a distance bias at random distances: the d-th token back is as far as the d-th
smallest of a sample from a range longer than any sequence. Neighbours keep their
order, and equal distances stay equal.

Formula: `bias[h, i, j] = inner_h(r_d)`, r_d the d-th smallest draw, `d = |i - j|`.
Source: Ruoss et al. 2023, arXiv:2305.16843; the rule is that of the authors' released
code for ALiBi and relative encodings (models/positional_encodings.py): 0 stays 0, the
others are drawn without replacement from 1 to `longest` - 1, in training and testing.
Direction: the same distances serve past and future, the code's default. Its half step
between past and future for ALiBi is left out. As in the code, one draw serves the
batch, here for all layers; the code draws anew in each.
Convention: `draw` draws the distances, and `offset_bias` reads them. Without a
generator, distances stay as they are.
Length: the authors' example (experiments/example.py) draws from 2048 distances and
trains on up to 40 tokens.
"""

from typing import ClassVar

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.schemes.contract import call_hook
from posenc_compare.schemes.scheme import (
    HOOKS,
    Call,
    Geometry,
    Published,
    check_axes,
    register,
)
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


@register(
    "randomized_distance",
    family="bias",
    source="Ruoss et al. 2023, arXiv:2305.16843",
    identities="is the scheme inside at the distances that are drawn",
    checked="authors' code",
)
class RandomizedDistance(Wrapper):
    """Give any bias of the offset alone rising random distances.

    Args:
        geometry: passed on.
        scheme: the scheme with the bias.
        longest: distances are below it; no sequence may be longer. 0 means 51.2 times
            the training length, 2048 of 40 in the paper.
    """

    published: ClassVar = {"longest": Published(2048, trained_at=40)}

    def __init__(
        self,
        geometry: Geometry,
        *,
        scheme: Variant = Variant("alibi"),
        longest: int = 0,
    ) -> None:
        longest = longest or geometry.positions(self.published["longest"])
        if longest < 1:
            raise ConfigError(
                f"randomized_distance: longest must be at least 1, got {longest}"
            )
        super().__init__(geometry, scheme.build(geometry))
        check_axes(self)
        doors = {door for door in HOOKS if self.inner.acts_at(door)} - {"scale"}
        if doors != {"offset_bias"} or self.inner.facts.per_layer:
            raise ConfigError(
                f"randomized_distance: scheme must have a bias of the offset alone and "
                f"one instance for all layers, got {scheme.label}"
            )
        self.longest = longest

    def draw(
        self, positions: Tensor, generator: torch.Generator | None
    ) -> Tensor | None:
        if generator is None or not positions.numel():
            return None
        low, high = positions.aminmax(dim=-1)
        count = int((high - low).max())
        if count >= self.longest:
            raise UndefinedPositionError(self.name, self.longest, count)
        drawn = torch.randperm(self.longest - 1, generator=generator)[:count] + 1
        return torch.cat([drawn.new_zeros(1), drawn.sort().values])

    def offset_bias(self, offsets: Tensor, call: Call | None = None) -> Tensor | None:
        if call is not None and call.drawn is not None:
            offsets = offsets.sign() * call.drawn[offsets.abs()]
        return call_hook(self.inner, "offset_bias", offsets, call=call)
