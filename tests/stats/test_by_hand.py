"""Statistics against values by hand, and against slow versions of their own."""

import itertools
import math
from dataclasses import astuple

import numpy as np
import pytest
from scipy import stats

from posenc_compare.stats.correlation import FEWEST, correlation
from posenc_compare.stats.documents import crossed_half_width
from posenc_compare.stats.order import order
from posenc_compare.stats.pairs import adjusted_p

RNG = np.random.default_rng(0)
OWNERS = np.array([7] * 20 + [3] + [12] * 4)  # documents of 20, 1 and 4 windows


def all_draws(windows: np.ndarray) -> float:
    """Return the half width over documents, from every draw of three of three."""
    documents = [windows[OWNERS == owner] for owner in (3, 7, 12)]
    means = [
        np.concatenate([documents[i] for i in drawn]).mean()
        for drawn in itertools.product(range(3), repeat=3)
    ]
    mean = sum(means) / 27
    variance = sum((one - mean) ** 2 for one in means) / 27
    return float(stats.t.ppf(0.975, 2)) * math.sqrt(variance * 3 / 2)


@pytest.mark.parametrize("seeds", [3, 30])
@pytest.mark.parametrize("spread", [0.0, 0.8])
def test_documents_are_drawn_whole_and_weigh_their_windows(
    seeds: int, spread: float
) -> None:
    documents = np.where(OWNERS == 7, 1.0, np.where(OWNERS == 3, 4.0, 2.0))
    lift = spread * np.linspace(-1, 1, seeds) * math.sqrt(seeds)
    noise = RNG.normal(size=(seeds, len(OWNERS)))
    scores = documents + lift[:, None] + noise - noise.mean(1, keepdims=True)
    of_seeds = (
        stats.t.ppf(0.975, seeds - 1) * scores.mean(1).std(ddof=1) / math.sqrt(seeds)
    )
    expected = math.sqrt(of_seeds**2 + all_draws(scores.mean(0)) ** 2)
    found = crossed_half_width(scores, OWNERS)
    assert found == pytest.approx(expected, rel=0.02)
    assert crossed_half_width(scores[::-1], OWNERS) == pytest.approx(found)


def every_permutation(x: np.ndarray, y: np.ndarray) -> float:
    """Return the share of all orders of `y` that correlate with `x` as much."""
    rho = abs(float(np.asarray(stats.spearmanr(x, y))[0])) - 1e-9
    found = [
        abs(float(np.asarray(stats.spearmanr(x, some))[0])) >= rho
        for some in itertools.permutations(y)
    ]
    return sum(found) / len(found)


@pytest.mark.parametrize("y", [[2, 1, 3, 5, 4], [3, 1, 4, 2, 5], [1, 2, 3, 4, 5]])
def test_p_counts_both_signs(y: list[float]) -> None:
    x, z, families = np.arange(5.0), np.array([0, 1, 0, 0, 1.0]), [*"abcde"]
    expected = every_permutation(x, np.array(y, float))
    for sign in (1, -1):
        found = correlation(sign * x, y, z, families)
        assert found is not None
        # Three standard errors of 9999 draws, and the observed order itself.
        error = 3 * math.sqrt(expected * (1 - expected) / 9999) + 1e-4
        assert found.p == pytest.approx(expected, abs=error)


@pytest.mark.parametrize("side", ["x", "y"])
def test_a_missing_number_takes_its_control_and_family_along(side: str) -> None:
    x, y = RNG.normal(size=(2, 9))
    z = np.array([1.0, 0, 0, 1, 1, 0, 1, 0, 0])
    families = np.array([*"aabbbccca"])
    known = np.arange(9) != 4
    whole = correlation(x[known], y[known], z[known], families[known])
    {"x": x, "y": y}[side][4] = np.nan
    found = correlation(x, y, z, families)
    assert found is not None
    assert whole is not None
    assert astuple(found) == astuple(whole)


def test_the_fewest_schemes_and_an_outcome_of_rounding() -> None:
    x, families = np.arange(float(FEWEST)), ["a"] * FEWEST
    z = np.array([0.0, 1, 1, 0])
    found = correlation(x, x**2, z, families)
    assert found is not None
    assert (found.n, found.rho) == (FEWEST, pytest.approx(1))
    noise = correlation(x, 1e-15 * x, z, families)
    assert noise is not None
    assert math.isnan(noise.rho)


def test_all_flips_of_fifteen_seeds_are_counted_and_of_more_the_plain_one() -> None:
    d = np.random.default_rng(0).normal(0.9, 1, size=15)
    signs = np.array([*itertools.product((1, -1), repeat=15)])
    t = np.abs(np.asarray(stats.ttest_1samp(signs * d, 0, axis=1))[0])
    one = float(np.asarray(stats.ttest_1samp(d, 0))[0])
    expected = np.mean(t >= abs(one) * (1 - 1e-9))
    assert 0.01 < expected < 0.2
    assert adjusted_p([d, np.zeros(15)])[0, 1] == expected
    far = 9 + RNG.normal(size=24)
    assert adjusted_p([far, np.zeros(24)])[0, 1] == 2**-14


def test_the_most_seeds_are_those_that_two_schemes_have() -> None:
    values = np.full((4, 9), np.nan)
    for i, seeds in enumerate((2, 9, 5, 7)):
        values[i, :seeds] = RNG.normal(size=seeds)
    assert order(values).seeds == 7
