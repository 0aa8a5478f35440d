"""Randomized positions.

Gives the tokens of a sequence random ids in rising order from a range longer than any
sequence, so that a test length brings no id that training has not shown.

Formula: position p becomes the p-th smallest of a sample without replacement.
Source: Ruoss et al. 2023, arXiv:2305.16843; the rule is that of the authors' released
code (models/positional_encodings.py), ids from 0 to `longest` - 1, in training and in
testing alike.
Convention: each sequence has a sample of its own, as the paper's figure 1 says; the
code draws one for the batch, which is `shared`. All layers see the same ids; the
code's rotary form draws anew in each. A sample has as many ids as the sequence has
positions, so ids cannot be drawn piece by piece. Without a generator, ids stay as
they are.
Length: the authors' example (experiments/example.py) draws from 2048 ids and trains on
up to 40 tokens.
"""

from typing import ClassVar

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Geometry,
    Published,
    check_axes,
    check_positions,
    register,
)
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


@register(
    "randomized",
    family="absolute",
    source="Ruoss et al. 2023, arXiv:2305.16843",
    identities="is the scheme inside at the ids that are drawn",
    checked="authors' code",
)
class Randomized(Wrapper):
    """Give any scheme rising random ids.

    Args:
        geometry: passed on.
        scheme: the scheme that sees the ids.
        longest: ids are below it; no sequence may be longer. 0 means 51.2 times the
            training length, 2048 of 40 in the paper.
        shared: draw once for the whole batch.
    """

    published: ClassVar = {"longest": Published(2048, trained_at=40)}

    def __init__(
        self,
        geometry: Geometry,
        *,
        scheme: Variant = Variant("sinusoidal"),
        longest: int = 0,
        shared: bool = False,
    ) -> None:
        longest = longest or geometry.positions(self.published["longest"])
        if longest < 1:
            raise ConfigError(f"randomized: longest must be at least 1, got {longest}")
        super().__init__(geometry, scheme.build(geometry))
        check_axes(self)
        self.longest = longest
        self.shared = shared

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        if generator is not None and positions.numel():
            check_positions(self.name, positions, self.longest)
            rows = (1, -1) if self.shared else (-1, positions.shape[-1])
            ids = [self._ids(row, generator) for row in positions.reshape(rows)]
            positions = torch.stack(ids).view_as(positions)
        return self.inner.positions(positions, generator)

    def _ids(self, row: Tensor, generator: torch.Generator) -> Tensor:
        sample = torch.randperm(self.longest, generator=generator)
        ids = sample[: int(row.max()) + 1].sort().values
        return ids.to(row.device)[row]
