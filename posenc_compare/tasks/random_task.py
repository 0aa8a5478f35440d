"""Tasks whose sequences are drawn at random: training and tests never share a stream.

A sequence is as many tokens as the network reads, with a target at each place and
whether that place counts. In training its size is drawn too, up to what the training
length holds; in a test it is the largest that the test length holds.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.registry import TASKS
from posenc_compare.settings.seeds import stream_seed
from posenc_compare.settings.training import Training
from posenc_compare.tasks.task import Batch, Task

PAD = 0
"""What follows a sequence that is shorter than the network reads; it never counts."""


@dataclass(frozen=True)
class Sequence:
    """One sequence of a task."""

    tokens: np.ndarray
    targets: np.ndarray  # the right token at each place
    counts: np.ndarray  # whether a place counts

    @classmethod
    def spoken(cls, text: np.ndarray, first: int) -> Self:
        """Return the sequence in which each token of a text is predicted.

        Args:
            text: `(length + 1,)`.
            first: the first token of it that counts; a whole number, or a mask of all.
        """
        counts = np.arange(1, len(text)) >= first
        return cls(text[:-1], text[1:], counts)


class RandomTask(Task):
    """A task whose sequences are independent draws."""

    @abstractmethod
    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        """Return a sequence of at most so many tokens.

        `rng` decides all that is random. The sequence is as large as fits if `largest`;
        else its size is drawn.
        """

    def batch(self, step: int, seed: int) -> Batch:
        setting = self.setting
        rng = np.random.default_rng(stream_seed(setting.task, "train", seed, step))
        return self._batch(setting.batch, setting.length, rng, largest=False)

    def test(self, length: int) -> Batch:
        return self.tests(length, self.setting.split)

    def tests(self, length: int, purpose: str) -> Batch:
        """Return the test sequences of a length, as many as the setting has tokens."""
        setting = self.setting
        rng = np.random.default_rng(stream_seed(setting.task, purpose, length))
        count = max(1, setting.test_bytes // length)
        return self._batch(count, length, rng, largest=True)

    def floors(self, length: int) -> dict[str, Tensor]:
        """Return the score of the one token that is right most often."""
        batch = self.test(length)
        assert batch.weights is not None
        common = torch.mode(batch.targets[batch.weights > 0]).values
        return {"constant": (batch.targets == common).float()}

    def _batch(
        self, count: int, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Batch:
        shape = (count, length)
        tokens, targets = np.full(shape, PAD), np.full(shape, PAD)
        counts = np.zeros(shape, dtype=np.float32)
        for row in range(count):
            one = self.sequence(length, rng, largest=largest)
            filled = slice(len(one.tokens))
            tokens[row, filled] = one.tokens
            targets[row, filled] = one.targets
            counts[row, filled] = one.counts
        return Batch(*map(torch.from_numpy, (tokens, targets, counts)))


def size(largest: int, rng: np.random.Generator, *, fixed: bool, least: int = 1) -> int:
    """Return the largest size, or one drawn from the least to the largest."""
    return largest if fixed else int(rng.integers(min(least, largest), largest + 1))


def check_length(setting: Training) -> None:
    """Refuse a training length that holds no sequence of a drawn task of this package.

    Raises:
        ConfigError: if no token counts in any sequence, or none can be drawn.
    """
    entry = TASKS.entry(setting.task)
    if not (TASKS.owns(entry.module) and issubclass(entry.item, RandomTask)):
        return
    if _holds(setting.length, setting):
        return
    longer = range(setting.length + 1, 2 * setting.length + 32)
    length = next(length for length in longer if _holds(length, setting))
    raise ConfigError(
        f"length must hold a sequence of {setting.task}, got {setting.length}; "
        f"--set length={length} would work",
        field="length",
    )


def _holds(length: int, setting: Training) -> bool:
    """Return whether the longest sequence of a length has a token that counts."""
    few = replace(setting, length=length, longest=1, test_bytes=length)
    try:
        batch = TASKS.get(setting.task)(few).test(length)
    except (IndexError, ValueError):
        return False
    return batch.weights is None or bool(batch.weights.any())
