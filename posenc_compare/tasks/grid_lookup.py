"""Lookup on a grid: output the symbol one row up and one column to the left.

The one task on two axes. Rows are read one after the other, and grids of one length
have several shapes, so that a distance along the line says little.
"""

import numpy as np
import torch

from posenc_compare.tasks.random_task import RandomTask, Sequence
from posenc_compare.tasks.task import Batch, register_task

SYMBOLS, LEAST = 16, 4  # cells along a side at the least


@register_task(
    "grid_lookup",
    vocabulary=16,
    score="accuracy",
    chance=0.0625,
    axes=2,
    length=32,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class GridLookup(RandomTask):
    """At each cell, output the symbol of the cell above and to the left.

    Positions are `(row, column)`; a scheme of one axis counts along the line.
    """

    columns = LEAST

    def batch(self, step: int, seed: int) -> Batch:
        shapes = _columns(self.setting.length)
        self.columns = shapes[step % len(shapes)]
        return self._placed(super().batch(step, seed))

    def tests(self, length: int, purpose: str) -> Batch:
        shapes = _columns(length)
        self.columns = shapes[len(shapes) // 2]
        return self._placed(super().tests(length, purpose))

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        text = rng.integers(SYMBOLS, size=length)
        place = np.arange(length)
        above = place - self.columns - 1
        inside = (above >= 0) & (place % self.columns > 0)
        return Sequence(text, np.where(inside, text[above], 0), inside)

    def _placed(self, batch: Batch) -> Batch:
        places = torch.arange(batch.tokens.shape[1])
        rows = places.div(self.columns, rounding_mode="floor")
        positions = torch.stack([rows, places % self.columns], dim=1)
        return Batch(batch.tokens, batch.targets, batch.weights, positions)


def _columns(length: int) -> list[int]:
    """Return the widths of the grids of so many cells, each side at least `LEAST`."""
    return [
        columns
        for columns in range(LEAST, length // LEAST + 1)
        if length % columns == 0
    ] or [length]
