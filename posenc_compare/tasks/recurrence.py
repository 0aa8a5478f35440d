"""Recurrence of a fixed order: unseen positions, no unseen difficulty.

Every token is the sum of the last one and of one that is a fixed number of places
back. What a token depends on never grows with the length, so an error beyond the
training length is one of positions. In `parity` or `state_tracking` both grow.

Source: after the tasks of PosGen, which part the two kinds of generalisation.
"""

import numpy as np

from posenc_compare.tasks.drawn import Drawn, Sequence
from posenc_compare.tasks.task import register_task

ORDER, MODULUS = 5, 16


@register_task(
    "recurrence",
    vocabulary=16,
    score="accuracy",
    chance=0.0625,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Recurrence(Drawn):
    """Output the sum, modulo 16, of the last token and the fifth-last one."""

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        text = rng.integers(MODULUS, size=length + 1)
        for place in range(ORDER, length + 1):
            text[place] = (text[place - 1] + text[place - ORDER]) % MODULUS
        return Sequence.spoken(text, first=ORDER)
