"""Copy: repeat a list of symbols, after a mark."""

import numpy as np

from posenc_compare.tasks.random_task import RandomTask, Sequence, size
from posenc_compare.tasks.task import register_task

MARK, FIRST, SYMBOLS = 1, 2, 16


@register_task(
    "copy",
    vocabulary=18,
    score="accuracy",
    chance=0.0625,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Copy(RandomTask):
    """Repeat a list of symbols in order.

    `a b c | a b c`: the list fills half of the length.
    """

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        count = size(length // 2, rng, fixed=largest)
        symbols = rng.integers(FIRST, FIRST + SYMBOLS, count)
        text = np.concatenate([symbols, [MARK], self.said(symbols)])
        return Sequence.spoken(text, first=count + 1)

    def said(self, symbols: np.ndarray) -> np.ndarray:
        """Return what is to be said of a list of symbols."""
        return symbols
