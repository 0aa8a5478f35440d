"""Associative recall: output the value of a key, for several keys.

Source: after Arora et al. 2023, arXiv:2312.04927 (several queries). The number of pairs
does not grow with the length: filler does, so that a longer text is one of larger
distances and not of more to remember.
"""

import numpy as np

from posenc_compare.tasks.random_task import RandomTask, Sequence, size
from posenc_compare.tasks.task import register_task

FILLERS, KEYS, VALUES = 16, 16, 16
PAIRS = 6  # at the most


@register_task(
    "recall",
    vocabulary=48,
    score="accuracy",
    chance=0.0625,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Recall(RandomTask):
    """Output the value of each key; pairs and queries are scattered in filler.

    Pairs lie in the first half of the text, queries in the second.
    """

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        half = (length + 1) // 2
        most = min(PAIRS, half // 2)
        count = size(most, rng, fixed=largest)
        text = rng.integers(FILLERS, size=length + 1)
        keys = rng.choice(KEYS, count, replace=False) + FILLERS
        values = rng.integers(VALUES, size=count) + FILLERS + KEYS
        counts = np.zeros(length + 1, dtype=bool)
        for start, order in ((0, np.arange(count)), (half, rng.permutation(count))):
            # Places of pairs, two tokens each, that do not overlap.
            places = np.sort(rng.choice(half - count, count, replace=False))
            places += start + np.arange(count)
            text[places], text[places + 1] = keys[order], values[order]
            counts[places + 1] = start > 0
        return Sequence(text[:-1], text[1:], counts[1:])
