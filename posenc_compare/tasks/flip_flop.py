"""Flip-flop language: read the bit that was written last.

Source: Liu, Ash, Goel, Krishnamurthy, Zhang 2023, arXiv:2306.00946. An instruction is
followed by a bit: `write` keeps it, `ignore` does not, and after `read` comes the bit
that was kept. Trained with 0.8 of `ignore`, tested besides with 0.98 (sparse: far
dependencies) and 0.1 (dense: many to tell apart).
"""

import numpy as np

from posenc_compare.tasks.random_task import RandomTask, Sequence
from posenc_compare.tasks.task import Batch, register_task

WRITE, IGNORE, READ, BIT = 0, 1, 2, 3
IGNORED = {"test": 0.8, "sparse": 0.98, "dense": 0.1}


@register_task(
    "flip_flop",
    vocabulary=5,
    score="accuracy",
    chance=0.5,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class FlipFlop(RandomTask):
    """At each read, output the bit that was written last."""

    ignored = IGNORED["test"]

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        pairs = (length + 1) // 2
        rest = (1 - self.ignored) / 2
        orders = rng.choice(3, size=pairs, p=[rest, self.ignored, rest])
        orders[0], orders[-1] = WRITE, READ
        bits = rng.integers(2, size=pairs)
        written = np.maximum.accumulate(np.where(orders == WRITE, np.arange(pairs), 0))
        bits = np.where(orders == READ, bits[written], bits)
        text = np.stack([orders, BIT + bits], axis=1).reshape(-1)
        tokens, targets = text[:-1], text[1:]
        return Sequence(tokens, targets, tokens == READ)

    def variations(self, length: int) -> dict[str, Batch]:
        found = {}
        for name in ("sparse", "dense"):
            self.ignored = IGNORED[name]
            found[name] = self.tests(length, f"{self.setting.split} {name}")
        self.ignored = IGNORED["test"]
        return found
