"""Shifted absolute position embedding (SHAPE).

Moves all positions of a sequence by one random offset while training, so that the
network cannot hold on to absolute positions.

Formula: position p becomes `p + offset`.
Source: Kiyono et al. 2021, arXiv:2109.05644; offsets follow the authors' released code
(onmt/modules/embeddings.py): from 0 to `reach` - 1 in training, and `reach` itself in
testing, an offset that training never drew; `test_offset` may be zero instead.
Convention: the offset is drawn for each sequence. Whether it is training is the
module's own mode (`train()`, `eval()`). Without a generator, nothing is drawn.
"""

from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, check_axes, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


@register(
    "shape",
    family="absolute",
    source="Kiyono et al. 2021, arXiv:2109.05644",
    real=True,
    identities="is the scheme inside at shifted ids",
    checked="authors' code",
)
class Shape(Wrapper):
    """Move the positions of any scheme by one random offset per sequence.

    Args:
        geometry: passed on.
        scheme: the scheme that sees the ids.
        reach: offsets in training are below it (the paper's K).
        test_offset: the offset in testing.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        scheme: Variant = Variant("sinusoidal"),
        reach: int = 500,
        test_offset: Literal["reach", "zero"] = "reach",
    ) -> None:
        if reach < 1:
            raise ConfigError(f"shape: reach must be at least 1, got {reach}")
        super().__init__(geometry, scheme.build(geometry))
        check_axes(self)
        self.reach = reach
        self.test_offset = reach if test_offset == "reach" else 0

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        if not self.training:
            positions = positions + self.test_offset
        elif generator is not None:
            each = (*positions.shape[:-1], 1)
            offset = torch.randint(self.reach, each, generator=generator)
            positions = positions + offset.to(positions.device)
        return self.inner.positions(positions, generator)
