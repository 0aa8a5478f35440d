"""State tracking: the word problem of S3, the smallest group that does not commute.

Source: Merrill, Petty, Sabharwal 2024, arXiv:2404.08819, who take S5.
"""

from itertools import permutations

import numpy as np

from posenc_compare.tasks.random_task import RandomTask, Sequence
from posenc_compare.tasks.task import register_task

GROUP = list(permutations(range(3)))
PRODUCT = np.array(
    [[GROUP.index((a[b[0]], a[b[1]], a[b[2]])) for b in GROUP] for a in GROUP]
)
"""`PRODUCT[a, b]` is the permutation `i -> a[b[i]]`."""


@register_task(
    "state_tracking",
    vocabulary=6,
    score="accuracy",
    chance=0.1667,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class StateTracking(RandomTask):
    """After each permutation of three things, output the product of all so far."""

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        moves = rng.integers(len(GROUP), size=length)
        states, state = np.empty(length, dtype=np.int64), 0
        for place, move in enumerate(moves):
            states[place] = state = int(PRODUCT[move, state])
        return Sequence(moves, states, np.ones(length))
