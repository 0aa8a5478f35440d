"""Positional skip-wise training (PoSE).

While training, the text is cut in two and the ids of the second part skip ahead by a
random number, so that a short text shows distances of a long one.

Formula: the first c ids stay, those after them become `p + skip`; c is uniform in
`1 ... (n + 1) // 2` and the skip in `0 ... target - n`, for a text of n ids.
Source: Zhu et al. 2023, arXiv:2309.10400; draws follow the authors' released code
(src/train_pose.py), which may also leave out text where the ids skip; here the text is
whole.
Convention: each sequence, and each text of a packed row, has draws of its own; a new
text begins where ids do not rise. Tests have ids as they are. Whether it
is training is the module's own mode (`train()`, `eval()`). Without a generator, nothing
is drawn.
Length: the paper trains on 2048 tokens for a target of 16 384, and more; its ids are
also interpolated, `pose:scheme=(rope:scaling=pi;factor=8)` here.
"""

from typing import ClassVar

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, Published, check_axes, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


@register(
    "pose",
    family="rotary",
    source="Zhu et al. 2023, arXiv:2309.10400",
    identities="a text as long as the target keeps its ids",
    checked="authors' code, paper not opened",
)
class Pose(Wrapper):
    """Let the ids of any scheme skip ahead once, while training.

    Args:
        geometry: passed on.
        scheme: the scheme that sees the ids.
        target: ids in training are below it, if they begin at 0 and have no gaps. 0
            means 8 times the training length, 16 384 of 2048 in the paper.
    """

    published: ClassVar = {"target": Published(16_384, trained_at=2048)}

    def __init__(
        self, geometry: Geometry, *, scheme: Variant = Variant("rope"), target: int = 0
    ) -> None:
        target = target or geometry.positions(self.published["target"])
        if target < 1:
            raise ConfigError(f"pose: target must be at least 1, got {target}")
        super().__init__(geometry, scheme.build(geometry))
        check_axes(self)
        self.target = target

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        if self.training and generator is not None and positions.numel():
            rows = positions.reshape(-1, positions.shape[-1])
            moved = [self._moved(row, generator) for row in rows]
            positions = torch.stack(moved).view_as(positions)
        return self.inner.positions(positions, generator)

    def _moved(self, row: Tensor, generator: torch.Generator) -> Tensor:
        """Let each text of a row skip; another begins where the ids do not rise."""
        starts = (row[1:] <= row[:-1]).nonzero()[:, 0] + 1
        first, *others = row.tensor_split(starts.cpu())
        moved = [self._skipped(first, generator)]
        if others:
            seed = int(torch.randint(1 << 31, (1,), generator=generator))
            for start, text in zip(starts.tolist(), others, strict=True):
                own = torch.Generator().manual_seed(seed + start)
                moved.append(self._skipped(text, own))
        return torch.cat(moved)

    def _skipped(self, row: Tensor, generator: torch.Generator) -> Tensor:
        count = len(row)
        first, skip = (
            int(torch.randint(low, high, (1,), generator=generator))
            for low, high in (
                (1, (count + 1) // 2 + 1),
                (0, max(0, self.target - count) + 1),
            )
        )
        return torch.cat([row[:first], row[first:] + skip])
