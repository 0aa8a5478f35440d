"""Addition: the digits of a sum, the highest first."""

import numpy as np

from posenc_compare.tasks.random_task import RandomTask, Sequence, size
from posenc_compare.tasks.task import register_task

PLUS, EQUALS = 10, 11


@register_task(
    "addition",
    vocabulary=12,
    score="accuracy",
    chance=0.1,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Addition(RandomTask):
    """Output the sum of two numbers with equally many digits, the highest first.

    `1 7 + 8 5 = 1 0 2`: a number of k digits may begin with zeros, and the sum has
    k + 1.
    """

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        count = size(max(1, (length - 2) // 3), rng, fixed=largest)
        first, second = rng.integers(10, size=(2, count))  # the lowest digit first
        total, carry = np.empty(count + 1, dtype=np.int64), 0
        for place, both in enumerate(first + second):
            carry, total[place] = divmod(int(both) + carry, 10)
        total[count] = carry
        text = [*self.said(first), PLUS, *self.said(second), EQUALS, *self.said(total)]
        return Sequence.spoken(np.array(text), first=2 * count + 2)

    def said(self, digits: np.ndarray) -> np.ndarray:
        """Return the digits of a number, the lowest first, as they are written."""
        return digits[::-1]
