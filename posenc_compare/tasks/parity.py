"""Parity: a state of one bit over all that was read."""

import numpy as np

from posenc_compare.tasks.random_task import RandomTask, Sequence
from posenc_compare.tasks.task import register_task


@register_task(
    "parity",
    vocabulary=2,
    score="accuracy",
    chance=0.5,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Parity(RandomTask):
    """After each bit, output whether the number of ones so far is odd."""

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        bits = rng.integers(2, size=length)
        return Sequence(bits, np.cumsum(bits) % 2, np.ones(length))
