"""Rank correlations over schemes, against scipy and by hand."""

import itertools
import math
from dataclasses import astuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from posenc_compare.stats.correlation import FEWEST, correlation, holm, spearman

RNG = np.random.default_rng(0)
X = RNG.integers(0, 6, size=20).astype(float)  # with ties
Y = X + 4 * RNG.normal(size=20)
Z = (np.arange(20) % 3 == 0).astype(float)


def test_a_weight_is_a_copy() -> None:
    weights = RNG.multinomial(20, np.full(20, 0.05), 5)
    for weight, found in zip(weights, spearman(X, Y, weights), strict=True):
        copies = np.repeat(np.arange(20), weight)
        expected = stats.spearmanr(X[copies], Y[copies])[0]
        assert found == pytest.approx(expected)


def rho_of_samples(
    x: NDArray[np.float64], y: NDArray[np.float64], axis: int = -1
) -> NDArray[np.float64]:
    """Return Spearman's coefficient of every sample: Pearson's of the ranks."""
    ranks = [stats.rankdata(one, axis=axis) for one in (x, y)]
    x, y = (one - one.mean(axis=axis, keepdims=True) for one in ranks)
    products = [(one * other).sum(axis=axis) for one, other in ((x, y), (x, x), (y, y))]
    return products[0] / np.sqrt(products[1] * products[2])


NEAR = np.arange(12.0)  # nearly in the order of the other: percentiles are biased
OTHER = NEAR + 2.5 * np.random.default_rng(5).normal(size=12)


@pytest.mark.parametrize(("x", "y"), [(X, Y), (NEAR, OTHER)])
def test_intervals_agree_with_scipy(
    x: NDArray[np.float64], y: NDArray[np.float64]
) -> None:
    found = correlation(x, y, Z[: len(x)])
    assert found is not None
    low, high = stats.bootstrap(
        (x, y),
        rho_of_samples,
        paired=True,
        vectorized=True,
        n_resamples=4000,
        method="BCa",
        rng=1,
    ).confidence_interval
    assert found.over_schemes == pytest.approx((low, high), abs=0.03)


def test_the_partial_correlation_is_that_of_what_the_control_leaves() -> None:
    found = correlation(X, Y, Z)
    assert found is not None
    x, y, z = (stats.rankdata(values) for values in (X, Y, Z))
    left = [v - np.polyval(np.polyfit(z, v, 1), z) for v in (x, y)]
    assert found.given == pytest.approx(np.corrcoef(*left)[0, 1])
    itself = correlation(Z, Y, Z)
    assert itself is not None
    assert np.isnan(itself.given)


def test_rounding_predicts_nothing_and_is_predicted_by_nothing() -> None:
    noise, rise = np.linspace(1e-16, 1e-14, 20), np.arange(20.0)
    for x, y in ((noise, rise), (rise, noise)):
        found = correlation(x, y, Z)
        assert found is not None
        assert np.isnan([found.rho, found.p, *found.over_schemes]).all()


def test_numbers_that_rounding_alone_distinguishes_are_ties() -> None:
    rounding = 2.2e-16 * RNG.permutation(12)
    x = np.where(np.arange(12) < 6, 1.0, 3.0)
    for values in (x, x + rounding):
        found = correlation(values, NEAR, np.zeros(12))
        assert found is not None
        assert found.rho == pytest.approx(stats.spearmanr(x, NEAR)[0])
    sizes = 10.0 ** -np.arange(12)  # all apart, though most are small beside the first
    sizes[9:] = (0.0, 1e-10, 2e-10)  # nothing
    found = correlation(sizes, NEAR, np.zeros(12))
    assert found is not None
    assert found.rho == pytest.approx(
        stats.spearmanr(np.minimum(np.arange(12), 9), -NEAR)[0]
    )
    alike = correlation(1.0 + rounding, NEAR, np.zeros(12))
    assert alike is not None
    assert math.isnan(alike.rho)
    assert math.isnan(alike.p)


def test_no_draw_is_better_than_the_same_order() -> None:
    found = correlation(np.arange(20.0), np.arange(20.0), Z)
    assert found is not None
    assert found.over_schemes == pytest.approx((1, 1))
    assert found.p == 1 / 10_000  # the observed order is one of all


def test_fewer_than_six_have_no_interval() -> None:
    few = correlation(X[:5], Y[:5], Z[:5])
    assert few is not None
    assert np.isnan(few.over_schemes).all()
    found = correlation(X[:6], Y[:6], Z[:6])
    assert found is not None
    assert np.isfinite(found.over_schemes).all()


def test_holm_multiplies_by_the_tests_that_are_left() -> None:
    assert holm([0.03, np.nan, 0.01, 0.02, 0.6]) == pytest.approx(
        [0.06, np.nan, 0.04, 0.06, 0.6], nan_ok=True
    )
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]


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
    x, z = np.arange(5.0), np.array([0, 1, 0, 0, 1.0])
    expected = every_permutation(x, np.array(y, float))
    for sign in (1, -1):
        found = correlation(sign * x, y, z)
        assert found is not None
        # Three standard errors of 9999 draws, and the observed order itself.
        error = 3 * math.sqrt(expected * (1 - expected) / 9999) + 1e-4
        assert found.p == pytest.approx(expected, abs=error)


@pytest.mark.parametrize("side", ["x", "y"])
def test_a_missing_number_takes_its_control_along(side: str) -> None:
    x, y = RNG.normal(size=(2, 9))
    z = np.array([1.0, 0, 0, 1, 1, 0, 1, 0, 0])
    known = np.arange(9) != 4
    whole = correlation(x[known], y[known], z[known])
    {"x": x, "y": y}[side][4] = np.nan
    found = correlation(x, y, z)
    assert found is not None
    assert whole is not None
    assert astuple(found) == astuple(whole)


def test_fewer_schemes_than_the_fewest_have_no_correlation() -> None:
    x = np.arange(float(FEWEST))
    z = np.array([0.0, 1, 1, 0])
    found = correlation(x, x**2, z)
    assert found is not None
    assert (found.n, found.rho) == (FEWEST, pytest.approx(1))
    assert correlation(x[1:], x[1:], z[1:]) is None
