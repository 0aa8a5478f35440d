"""Look-ahead: output the symbol that stands three places later.

It trains an encoder, since a causal mask hides that symbol. To solve it, a scheme must
tell a place ahead from one behind; symmetric schemes cannot.
"""

import numpy as np

from posenc_compare.tasks.random_task import RandomTask, Sequence
from posenc_compare.tasks.task import register_task

SYMBOLS, PLACES = 16, 3


@register_task(
    "lookahead",
    vocabulary=16,
    score="accuracy",
    chance=0.0625,
    network="encoder",
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class Lookahead(RandomTask):
    """At each place, output the symbol three places later, without a causal mask.

    The last three places do not count.
    """

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        text = rng.integers(SYMBOLS, size=length)
        later = np.roll(text, -PLACES)
        return Sequence(text, later, np.arange(length) < length - PLACES)
