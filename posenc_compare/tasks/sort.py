"""Sort: repeat a list of symbols in ascending order, after a mark."""

import numpy as np

from posenc_compare.tasks.copy import Copy
from posenc_compare.tasks.task import register_task


@register_task(
    "sort",
    vocabulary=18,
    score="accuracy",
    chance=0.0625,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Sort(Copy):
    """Repeat a list of symbols in ascending order, each as often as it came."""

    def said(self, symbols: np.ndarray) -> np.ndarray:
        return np.sort(symbols)
