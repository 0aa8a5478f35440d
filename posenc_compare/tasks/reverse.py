"""Reverse: repeat a list of symbols backwards, after a mark."""

import numpy as np

from posenc_compare.tasks.copy import Copy
from posenc_compare.tasks.task import register_task


@register_task(
    "reverse",
    vocabulary=18,
    score="accuracy",
    chance=0.0625,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Reverse(Copy):
    """Repeat a list of symbols, the last one first."""

    def said(self, symbols: np.ndarray) -> np.ndarray:
        return symbols[::-1]
