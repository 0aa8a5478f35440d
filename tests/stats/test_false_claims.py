"""How often tables without any difference are said to have one, and with one, have it.

`pytest -n0 -s tests/stats/test_false_claims.py` prints the figures of
`docs/statistics.md`.
"""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest

from posenc_compare.stats.level import ALPHA
from posenc_compare.stats.order import order
from posenc_compare.stats.pairs import adjusted_p

TABLES = 1000
RESAMPLED = 200
CLASSES = (0, 1, 2, 4, np.inf)  # sizes of differences, in standard deviations
every_n = pytest.mark.parametrize("seeds", [6, 8, 10])
# The spreads of 14 schemes over 5 seeds, in bits per byte at 2048 bytes; the widest is
# 54 times the narrowest.
with Path(__file__).with_name("bits_at_2048.csv").open(encoding="utf-8") as file:
    BITS = np.array([row[1:] for row in list(csv.reader(file))[1:]], float)
MEANS = BITS.mean(1)
RESIDUALS = (BITS - MEANS[:, None]) * np.sqrt(5 / 4)
FIRST, SECOND = np.triu_indices(len(BITS), 1)
# The size of each pair's true difference, in its standard deviation over seeds.
SPREADS = (RESIDUALS[FIRST] - RESIDUALS[SECOND]).std(1)
SIZES = abs(MEANS[FIRST] - MEANS[SECOND]) / SPREADS


def null_table(seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Return `(schemes, seeds)` in which all schemes are alike but for their spread."""
    return rng.normal(size=(len(BITS), seeds)) * RESIDUALS.std(1)[:, None]


def resampled(seeds: int, rng: np.random.Generator) -> np.ndarray:
    """Return `(schemes, seeds)` with the true means, and seeds drawn anew."""
    drawn = RESIDUALS[:, rng.integers(RESIDUALS.shape[1], size=seeds)]
    return MEANS[:, None] + drawn * rng.choice((-1.0, 1.0), seeds)


def claims(values: np.ndarray) -> np.ndarray:
    """Return for every pair whether it is said to differ."""
    return np.nan_to_num(adjusted_p(values)[FIRST, SECOND], nan=1.0) <= ALPHA


def level(seeds: int) -> float:
    """Return the largest share of flips that is at most `ALPHA`."""
    flips = 2 ** (seeds - 1)
    return np.floor(ALPHA * flips) / flips


@every_n
def test_false_claims_in_a_thousand_null_tables(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    false = sum(claims(null_table(seeds, rng)).any() for _ in range(TABLES))
    print(f"{seeds} seeds: {false} of {TABLES} null tables; level {level(seeds):.3f}")
    assert false / TABLES <= ALPHA
    # And no less than the test allows, within three standard errors.
    error = 3 * np.sqrt(level(seeds) * (1 - level(seeds)) / TABLES)
    assert abs(false / TABLES - level(seeds)) <= error


@every_n
def test_at_most_one_in_twenty_is_exact(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    false = tables = 0
    while tables < TABLES:  # all flips of a null table are null tables alike
        table = null_table(seeds, rng)
        for signs in itertools.product((1.0, -1.0), repeat=seeds - 1):
            false += claims(table * np.array([1.0, *signs])).any()
            tables += 1
    assert false / tables == level(seeds) <= ALPHA


def test_true_differences_make_no_false_ones() -> None:
    rng = np.random.default_rng(0)
    lift = np.where(np.arange(len(BITS)) < 7, 0.0, 100.0)[:, None]
    alike = (FIRST < 7) == (SECOND < 7)
    found = [claims(null_table(8, rng) + lift) for _ in range(TABLES)]
    assert all(one[~alike].all() for one in found)
    assert sum(one[alike].any() for one in found) / TABLES <= ALPHA


@every_n
def test_power(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    tables = [resampled(seeds, rng) for _ in range(RESAMPLED)]
    found = np.mean([claims(table) for table in tables], axis=0)
    groups = np.mean([len(order(table).groups) for table in tables])
    shares = [
        found[(low <= SIZES) & (high > SIZES)].mean()
        for low, high in itertools.pairwise(CLASSES)
    ]
    print(
        f"{seeds} seeds: {found.sum():.0f} of {len(found)} pairs, {groups:.1f} groups;"
        f" by size {' '.join(f'{share:.2f}' for share in shares)}"
    )
    assert shares == sorted(shares)
    assert shares[-1] > 0.97
    assert found.sum() > 0.75 * len(found)
