"""Selective copying: repeat the few symbols of a text that are not blank.

Source: Gu, Dao 2023, arXiv:2312.00752, section 3.1 and 4.1.1. The number of symbols
does not grow with the length, the blanks between them do.
"""

import numpy as np

from posenc_compare.tasks.drawn import Drawn, Sequence, size
from posenc_compare.tasks.task import register_task

BLANK, MARK, FIRST, SYMBOLS = 0, 1, 2, 16
MOST = 8  # symbols


@register_task(
    "selective_copy",
    vocabulary=18,
    score="accuracy",
    chance=0.0625,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class SelectiveCopy(Drawn):
    """Repeat the symbols of a text in order, without the blanks."""

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        count = size(min(MOST, length // 2), rng, fixed=largest)
        symbols = rng.integers(FIRST, FIRST + SYMBOLS, count)
        text = np.full(length - count, BLANK)
        places = np.sort(rng.choice(len(text), count, replace=False))
        text[places] = symbols
        text = np.concatenate([text, [MARK], symbols])
        return Sequence.spoken(text, first=length - count + 1)
