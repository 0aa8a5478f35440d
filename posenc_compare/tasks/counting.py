"""Counting: how often has this symbol come?"""

import numpy as np

from posenc_compare.tasks.random_task import RandomTask, Sequence
from posenc_compare.tasks.task import register_task

SYMBOLS, MODULUS = 4, 8


@register_task(
    "counting",
    vocabulary=12,
    score="accuracy",
    chance=0.125,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Counting(RandomTask):
    """After each of four symbols, output its count so far, modulo eight."""

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        symbols = rng.integers(SYMBOLS, size=length)
        came = np.cumsum(symbols[:, None] == np.arange(SYMBOLS), axis=0)
        counts = came[np.arange(length), symbols]
        return Sequence(symbols + MODULUS, counts % MODULUS, np.ones(length))
