"""Digits: recognise handwritten digits.

The 1,797 images of 8 x 8 pixels are those of scikit-learn (`load_digits`), the test set
of Optical Recognition of Handwritten Digits (Alpaydin and Kaynak 1998, UCI). A pixel is
a token, one of 17 levels of grey. Other sizes are interpolated linearly, with
antialiasing, and rounded to these levels.
"""

import functools

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.settings.seeds import stream_seed
from posenc_compare.tasks.images import Images
from posenc_compare.tasks.task import register_task

LEVELS = 17  # of grey
PART = 1 / 5  # of all images: for tests, and as many for validation


@register_task(
    "digits",
    vocabulary=27,
    score="accuracy",
    chance=0.1,
    axes=2,
    network="classifier",
    length=64,
    steps=1000,
    batch=32,
    learning_rate=2e-3,
    extra=True,
)
class Digits(Images):
    """Output which digit an image shows. A seed has its own split of the images.

    Positions are `(row, column)`; a scheme of one axis counts the pixels row by row.
    """

    first_class = LEVELS

    def train_images(
        self, count: int, rows: int, columns: int, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        order = self._split("train")
        return _resized(order[rng.integers(len(order), size=count)], rows, columns)

    def test_images(self, count: int, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        return _resized(self._split(self.setting.split)[:count], rows, columns)

    def _split(self, purpose: str) -> np.ndarray:
        """Return the numbers of the images to train on, to validate or to test on."""
        total = len(_digits()[0])
        seed = stream_seed(self.setting.task, "split", self.setting.seed)
        order = np.random.default_rng(seed).permutation(total)
        count = int(PART * total)
        parts = np.split(order, [count, 2 * count])
        return parts[("test", "validation", "train").index(purpose)]


@functools.cache
def _digits() -> tuple[Tensor, Tensor]:
    """Return all images `(image, row, column)` float32, and their classes."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ConfigError(
            "digits: needs the package scikit-learn, got none; "
            "pip install 'posenc-compare[images]' would work"
        ) from error
    pixels, classes = map(np.asarray, load_digits(return_X_y=True))
    images = torch.from_numpy(pixels).float().unflatten(1, (8, 8))
    return images, torch.from_numpy(classes)


def _resized(numbers: np.ndarray, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return images of these numbers at a size, and their classes."""
    images, classes = (part[torch.from_numpy(numbers)] for part in _digits())
    size = (rows, columns)
    if images.shape[1:] != size:
        scaled = F.interpolate(images[:, None], size, mode="bilinear", antialias=True)
        images = scaled[:, 0].round()
    return images.long(), classes
