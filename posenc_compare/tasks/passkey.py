"""Passkey: find four digits again in a long text of filler.

Source: after Mohtashami, Jaggi 2023, arXiv:2305.16300.
"""

import numpy as np

from posenc_compare.tasks.random_task import RandomTask, Sequence
from posenc_compare.tasks.task import register_task

DIGITS, HERE, ASK, FILLER = 10, 10, 11, 12
FILLERS, KEY = 16, 4


@register_task(
    "passkey",
    vocabulary=28,
    score="accuracy",
    chance=0.1,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Passkey(RandomTask):
    """Output the four digits that followed a mark, anywhere in the text."""

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        before = length - KEY  # tokens before the question
        text = rng.integers(FILLER, FILLER + FILLERS, before)
        key = rng.integers(DIGITS, size=KEY)
        start = int(rng.integers(before - KEY))
        text[start : start + KEY + 1] = [HERE, *key]
        return Sequence.spoken(np.array([*text, ASK, *key]), first=before + 1)
