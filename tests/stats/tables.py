"""Tables of known truth: a trained table's spreads, with means of our choice.

The spreads are those of 14 schemes over 5 seeds, in bits per byte at 2048 bytes
(`bits_at_2048.csv`); the widest is 54 times the narrowest.
"""

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

with Path(__file__).with_name("bits_at_2048.csv").open(encoding="utf-8") as file:
    BITS: Floats = np.array([row[1:] for row in list(csv.reader(file))[1:]], float)
MEANS = BITS.mean(1)
RESIDUALS = (BITS - MEANS[:, None]) * np.sqrt(5 / 4)
FIRST, SECOND = np.triu_indices(len(BITS), 1)
# The size of each pair's true difference, in its standard deviation over seeds.
SIZES = abs(MEANS[FIRST] - MEANS[SECOND]) / (RESIDUALS[FIRST] - RESIDUALS[SECOND]).std(
    1
)


def null_table(seeds: int, rng: np.random.Generator) -> Floats:
    """Return `(schemes, seeds)` in which all schemes are alike but for their spread."""
    return rng.normal(size=(len(BITS), seeds)) * RESIDUALS.std(1)[:, None]


def resampled(seeds: int, rng: np.random.Generator) -> Floats:
    """Return `(schemes, seeds)` with the true means, and seeds drawn anew."""
    drawn = RESIDUALS[:, rng.integers(RESIDUALS.shape[1], size=seeds)]
    return MEANS[:, None] + drawn * rng.choice((-1.0, 1.0), seeds)
