"""What tasks on images share: sizes, positions, and one class for each image.

An image is a grid of tokens, read row by row; a position is `(row, column)`. Networks
are trained on one grid, as square as its number of tokens allows. They are tested on
the first of the same test images at 1/4, 1, 4 and 16 times as many tokens, and on
grids of as many tokens that are twice as wide and half as high, or the reverse.
"""

import math
from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor

from posenc_compare.settings.seeds import stream_seed
from posenc_compare.tasks.task import Batch, Task


class Images(Task):
    """A task whose sequences are images, each of one class.

    Attributes:
        first_class: the token of the first class.
    """

    first_class: int

    @abstractmethod
    def train_images(
        self, count: int, rows: int, columns: int, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return drawn images to train on, and their classes.

        Returns:
            Tokens `(count, rows, columns)` int64, and classes `(count,)` from 0.
        """

    @abstractmethod
    def test_images(self, count: int, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """Return the first test images, at most `count`, as `train_images` does."""

    def batch(self, step: int, seed: int) -> Batch:
        setting = self.setting
        rng = np.random.default_rng(stream_seed(setting.task, "train", seed, step))
        sides = sides_of(setting.length)
        return self._batch(*self.train_images(setting.batch, *sides, rng))

    def test(self, length: int) -> Batch:
        return self._tests(*sides_of(length))

    def variations(self, length: int) -> dict[str, Batch]:
        """Return tests on wider and higher grids, from the training length up."""
        rows, columns = sides_of(length)
        shapes = {"wide": (rows / 2, columns * 2), "high": (rows * 2, columns / 2)}
        return {
            name: self._tests(int(high), int(wide))
            for name, (high, wide) in shapes.items()
            if length >= self.setting.length and high * wide == int(high) * int(wide)
        }

    def floors(self, length: int) -> dict[str, Tensor]:
        """Return the score of the one class that is right most often."""
        targets = self.test(length).targets
        return {"constant": (targets == torch.mode(targets.flatten()).values).float()}

    def _tests(self, rows: int, columns: int) -> Batch:
        count = max(1, self.setting.test_bytes // (rows * columns))
        return self._batch(*self.test_images(count, rows, columns))

    def _batch(self, images: Tensor, classes: Tensor) -> Batch:
        rows, columns = images.shape[1:]
        tokens = images.flatten(1)
        targets = (classes + self.first_class)[:, None].expand(tokens.shape)
        positions = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
        return Batch(tokens, targets, positions=positions)


def sides_of(length: int) -> tuple[int, int]:
    """Return rows and columns of the grid of so many tokens that is nearest a square.

    Example:
        >>> sides_of(64), sides_of(32)
        ((8, 8), (4, 8))
    """
    rows = next(n for n in range(math.isqrt(length), 0, -1) if length % n == 0)
    return rows, length // rows
