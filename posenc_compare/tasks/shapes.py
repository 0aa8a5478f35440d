"""Shapes: output where one shape lies from another in an image.

The answer depends on positions alone: all images hold the same kinds of tokens. It is
the same at every size of the grid, and on wider and higher grids. With fewer than four
rows or columns, some images have both shapes in the same row or column.
"""

import numpy as np
import torch
from torch import Tensor

from posenc_compare.settings.seeds import stream_seed
from posenc_compare.tasks.images import Images
from posenc_compare.tasks.task import register_task

EMPTY, FIRST, SECOND, OTHER = range(4)  # tokens of a cell
CLASSES = 4
OTHERS = 4  # shapes that have no say
EDGE = 1 / 8  # least distance of a centre from an edge, in sides of the image
APART = 1 / 4  # least distance of the two centres along each side
HALF = (1 / 16, 1 / 8)  # least and largest half of a side of a shape


@register_task(
    "shapes",
    vocabulary=8,
    score="accuracy",
    chance=0.25,
    axes=2,
    network="classifier",
    length=64,
    steps=1000,
    batch=32,
    learning_rate=2e-3,
)
class Shapes(Images):
    """Output whether the second rectangle lies above or below the first, left or right.

    Four other rectangles have no say. Positions are `(row, column)`; a scheme of one
    axis counts the cells row by row.
    """

    first_class = OTHER + 1

    def train_images(
        self, count: int, rows: int, columns: int, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        return _drawn(count, rows, columns, rng)

    def test_images(self, count: int, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        setting = self.setting
        seed = stream_seed(setting.task, setting.split, setting.seed)
        tokens, classes = [], []
        for number in range(count):  # the same images at every size
            rng = np.random.default_rng([seed, number])
            image, its_class = _drawn(1, rows, columns, rng)
            tokens.append(image)
            classes.append(its_class)
        return torch.cat(tokens), torch.cat(classes)


def _drawn(
    count: int, rows: int, columns: int, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Return images `(count, rows, columns)` and their classes `(count,)`."""
    low = np.sort(rng.uniform(EDGE, 1 - EDGE - APART, (count, 2, 2)), axis=1)
    low[:, 1] += APART
    swapped = rng.integers(2, size=(count, 2))  # along rows, and along columns
    first, second = (np.where(swapped == end, low[:, 0], low[:, 1]) for end in (0, 1))
    others = rng.uniform(EDGE, 1 - EDGE, (count, OTHERS, 2))
    halves = rng.uniform(*HALF, (count, OTHERS + 2, 2))
    image = np.full((count, rows, columns), EMPTY)
    centres = np.concatenate([others, first[:, None], second[:, None]], axis=1)
    kinds = [OTHER] * OTHERS + [FIRST, SECOND]
    for number, kind in enumerate(kinds):
        down, across = (
            _covered(centres[:, number, axis], halves[:, number, axis], side)
            for axis, side in enumerate((rows, columns))
        )
        image[down[:, :, None] & across[:, None, :]] = kind
    return torch.from_numpy(image), torch.from_numpy(2 * swapped[:, 0] + swapped[:, 1])


def _covered(centre: np.ndarray, half: np.ndarray, side: int) -> np.ndarray:
    """Return which cells of a side a shape covers, `(image, cell)`.

    They are those whose middle lies in it, and that of its centre.
    """
    cells = np.arange(side)
    near = np.abs((cells + 0.5) / side - centre[:, None]) < half[:, None]
    return near | (cells == np.floor(centre * side)[:, None])
