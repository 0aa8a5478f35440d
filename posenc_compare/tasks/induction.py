"""Induction: which token followed this symbol before?

Source: Olsson et al. 2022, arXiv:2209.11895; as a task in Fu et al. 2023,
arXiv:2212.14052.
"""

import numpy as np

from posenc_compare.tasks.drawn import Drawn, Sequence
from posenc_compare.tasks.task import register_task

TRIGGER, FIRST, SYMBOLS = 0, 1, 16


@register_task(
    "induction",
    vocabulary=17,
    score="accuracy",
    chance=0.0625,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Induction(Drawn):
    """At the end, output the token that followed the trigger, seen once before."""

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        text = rng.integers(FIRST, FIRST + SYMBOLS, length + 1)
        place = int(rng.integers(length - 2))
        text[[place, length - 1]] = TRIGGER
        text[length] = text[place + 1]
        return Sequence.spoken(text, first=length)
