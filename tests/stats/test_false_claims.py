"""How often tables without any difference are said to have one, and with one, have it.

`pytest -n0 -s tests/stats/test_false_claims.py` prints the figures of
`docs/statistics.md`.
"""

import itertools

import numpy as np
import pytest
from stats.tables import BITS, FIRST, SECOND, SIZES, null_table, resampled

from posenc_compare.stats.order import order
from posenc_compare.stats.pairs import ALPHA, adjusted_p

TABLES = 1000
RESAMPLED = 200
CLASSES = (0, 1, 2, 4, np.inf)  # sizes of differences, in standard deviations
every_n = pytest.mark.parametrize("seeds", [6, 8, 10])


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
    print(
        f"{seeds} seeds: {false} of {TABLES} null tables, {level(seeds):.3f} expected"
    )
    # The rate is that of the test itself, within three standard errors.
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
