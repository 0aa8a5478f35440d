"""Intervals of means: figures from tables, and how often they cover the truth."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest, t

from posenc_compare.stats.documents import crossed_half_width
from posenc_compare.stats.intervals import LEVEL, half_width, wilson
from posenc_compare.stats.rounding import rounded_away, settled


@pytest.mark.parametrize(
    # Quantiles of Student's t, 0.975, as printed tables give them.
    ("n", "quantile"),
    [(2, 12.706), (3, 4.303), (5, 2.776), (10, 2.262), (31, 2.042)],
)
def test_the_half_width_is_student_s(n: int, quantile: float) -> None:
    values = np.arange(float(n))
    spread = math.sqrt(sum((v - (n - 1) / 2) ** 2 for v in values) / (n - 1))
    found = half_width([*values, math.nan, math.inf])
    last_digit = 0.0005 * spread / math.sqrt(n)
    assert found == pytest.approx(quantile * spread / math.sqrt(n), abs=last_digit)


def test_one_seed_has_no_interval() -> None:
    assert math.isnan(half_width([1.0]))
    assert math.isnan(half_width([1.0, math.nan]))
    assert math.isnan(crossed_half_width([[1.0, 2.0]], [0, 1]))
    assert math.isnan(crossed_half_width([[1.0, 2.0], [2.0, 2.0]], [3, 3]))


def test_crossed_intervals_cover_the_truth_and_those_of_seeds_do_not() -> None:
    rng = np.random.default_rng(0)
    seeds, documents, windows, tables = 6, 15, 30, 400
    covered = {"crossed": 0, "seeds": 0}
    owners = np.arange(windows) % documents
    for _ in range(tables):
        scores = (
            0.02 * rng.normal(size=(seeds, 1))
            + 0.45 * rng.normal(size=documents)[owners]
            + 0.05 * rng.normal(size=(seeds, windows))
        )
        mean = abs(scores.mean())
        covered["crossed"] += mean <= crossed_half_width(scores, owners)
        covered["seeds"] += mean <= half_width(scores.mean(1))
    # 95 % within three standard errors of 400 tables, or more.
    assert covered["crossed"] / tables >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / tables)
    assert covered["seeds"] / tables < 0.5


def test_what_is_rounding() -> None:
    assert rounded_away([1e-17, -2e-14, 1e-3]).tolist() == [0, 0, 1e-3]
    assert settled([2.0e-16, 1.9e-16, 0.0])
    assert settled([1.0, 1.0 + 3e-15])
    assert settled([-7.25])
    assert settled([1e6, 1e6 + 1e-6])
    assert not settled([1.0, 1.0 + 1e-6])
    assert not settled([0.0, 1e-6])


@pytest.mark.parametrize(("found", "asked"), [(0, 9), (3, 9), (45, 45), (61, 270)])
def test_wilson_intervals_are_those_of_scipy(found: int, asked: int) -> None:
    wanted = binomtest(found, asked).proportion_ci(LEVEL, "wilson")
    assert wilson(found, asked) == pytest.approx((wanted.low, wanted.high))


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
    return float(t.ppf(0.975, 2)) * math.sqrt(variance * 3 / 2)


@pytest.mark.parametrize("seeds", [3, 30])
@pytest.mark.parametrize("spread", [0.0, 0.8])
def test_documents_are_drawn_whole_and_weigh_their_windows(
    seeds: int, spread: float
) -> None:
    documents = np.where(OWNERS == 7, 1.0, np.where(OWNERS == 3, 4.0, 2.0))
    lift = spread * np.linspace(-1, 1, seeds) * math.sqrt(seeds)
    noise = np.random.default_rng(0).normal(size=(seeds, len(OWNERS)))
    scores = documents + lift[:, None] + noise - noise.mean(1, keepdims=True)
    of_seeds = t.ppf(0.975, seeds - 1) * scores.mean(1).std(ddof=1) / math.sqrt(seeds)
    expected = math.sqrt(of_seeds**2 + all_draws(scores.mean(0)) ** 2)
    found = crossed_half_width(scores, OWNERS)
    assert found == pytest.approx(expected, rel=0.02)
    assert crossed_half_width(scores[::-1], OWNERS) == pytest.approx(found)
