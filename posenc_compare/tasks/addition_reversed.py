"""Addition of numbers that are written with the lowest digit first."""

import numpy as np

from posenc_compare.tasks.addition import Addition
from posenc_compare.tasks.task import register_task


@register_task(
    "addition_reversed",
    vocabulary=12,
    score="accuracy",
    chance=0.1,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class AdditionReversed(Addition):
    """Output the sum of two numbers, all with the lowest digit first."""

    def said(self, digits: np.ndarray) -> np.ndarray:
        return digits
