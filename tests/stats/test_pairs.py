"""The test of all pairs, against a slow version, and the groups it tells apart."""

import itertools

import numpy as np
import pytest
from scipy import stats

from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.level import FEWEST
from posenc_compare.stats.order import order
from posenc_compare.stats.pairs import adjusted_p


def slow(values: np.ndarray) -> np.ndarray:
    """Step-down max-T by loops (Ge, Dudoit and Speed 2003, Box 2)."""
    k, n = values.shape
    pairs = list(itertools.combinations(range(k), 2))

    def t(pair: tuple[int, int], signs: tuple[int, ...]) -> float:
        d = [s * (values[pair[0], i] - values[pair[1], i]) for i, s in enumerate(signs)]
        d = [one for one in d if one == one]
        mean = sum(d) / len(d)
        variance = sum((one - mean) ** 2 for one in d) / (len(d) - 1)
        return abs(mean) / (variance / len(d)) ** 0.5

    observed = {pair: t(pair, (1,) * n) for pair in pairs}
    ranked = sorted(pairs, key=lambda pair: -observed[pair])
    flips = list(itertools.product((1, -1), repeat=n))
    found, last = np.full((k, k), np.nan), 0.0
    for place, pair in enumerate(ranked):
        count = 0
        for signs in flips:
            largest = max(t(other, signs) for other in ranked[place:])
            count += largest >= observed[pair] * (1 - 1e-9)
        last = max(last, count / len(flips))
        found[pair] = found[pair[::-1]] = last
    return found


# The ranks of |t| of six and of nine seeds depend on the freedom of each pair.
@pytest.mark.parametrize(
    ("draw", "seeds", "missing"), [(3, 7, 0), (3, 7, 1), (9, 9, 3)]
)
def test_it_is_the_step_down_of_the_paper(draw: int, seeds: int, missing: int) -> None:
    rng = np.random.default_rng(draw)
    values = rng.normal(size=(4, seeds)) + np.array([[0.0], [0.5], [1.5], [4.0]])
    values[1, :missing] = np.nan
    ours = adjusted_p(values)
    np.testing.assert_allclose(ours, slow(values), rtol=0, atol=1e-12)
    assert len(np.unique(ours[np.isfinite(ours)])) > 2


@pytest.mark.parametrize(("seeds", "least"), [(6, 1 / 32), (8, 1 / 128)])
def test_the_smallest_p_is_one_over_the_flips(seeds: int, least: float) -> None:
    rng = np.random.default_rng(0)
    far = np.arange(5.0)[:, None] * 1000 + rng.normal(size=(5, seeds))
    p = adjusted_p(far)
    assert p[np.isfinite(p)] == pytest.approx(least)


def test_below_six_seeds_nothing_is_tested() -> None:
    far = np.arange(3.0)[:, None] * 1000 + np.random.default_rng(0).normal(size=(3, 5))
    assert FEWEST == 6
    assert np.isnan(adjusted_p(far)).all()


def test_pairs_are_compared_on_their_common_seeds() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3, 9)) + np.array([[0.0], [1.0], [9.0]])
    values[2, :3] = np.nan  # 6 seeds in common with both others
    values[1, 8] = np.nan  # 5 with the third
    p = adjusted_p(values)
    assert np.isnan(p[1, 2])
    assert p[0, 2] <= 0.05
    alone = adjusted_p(values[[0, 2], 3:])
    assert p[0, 2] >= alone[0, 1] == 1 / 32


@pytest.mark.parametrize("factor", [1, 1 + 1e-15, 1 + 1e-12, 1 - 1e-15])
def test_schemes_that_are_equal_but_for_rounding_never_differ(factor: float) -> None:
    values = np.random.default_rng(0).normal(size=8) + 3
    p = adjusted_p([values, values * factor, values + 5])
    assert p[0, 1] == 1
    assert p[0, 2] == p[1, 2] == 1 / 128


def test_a_difference_whose_mean_is_rounding_is_none() -> None:
    differences = np.array([-1.0, 3.0, -2.0, -2.0, 1.0, 1.0])
    assert adjusted_p([differences, 0 * differences])[0, 1] == 1


def test_a_sample_of_flips_agrees_with_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=(5, 15)) + np.arange(5.0)[:, None] * 0.4
    exact = adjusted_p(values)
    monkeypatch.setattr("posenc_compare.stats.pairs.EXACT", 14)
    sample = adjusted_p(values)
    known = np.isfinite(exact)
    # Three standard errors of a share of 2 ** 13 draws.
    error = 3 * np.sqrt(exact[known] * (1 - exact[known]) / 2**13)
    assert (abs(sample[known] - exact[known]) <= error).all()
    assert (sample[known] != exact[known]).any()
    assert (adjusted_p(values)[known] == sample[known]).all()


def test_all_flips_of_fifteen_seeds_are_counted_and_of_more_the_plain_one() -> None:
    d = np.random.default_rng(0).normal(0.9, 1, size=15)
    signs = np.array([*itertools.product((1, -1), repeat=15)])
    t = np.abs(np.asarray(stats.ttest_1samp(signs * d, 0, axis=1))[0])
    one = float(np.asarray(stats.ttest_1samp(d, 0))[0])
    expected = np.mean(t >= abs(one) * (1 - 1e-9))
    assert 0.01 < expected < 0.2
    assert adjusted_p([d, np.zeros(15)])[0, 1] == expected
    far = 9 + np.random.default_rng(1).normal(size=24)
    assert adjusted_p([far, np.zeros(24)])[0, 1] == 2**-14


# --- groups that the test tells apart -----------------------------------------------

RNG = np.random.default_rng(0)
SEEDS = 8


def scheme(mean: float, spread: float = 0.1) -> np.ndarray:
    noise = RNG.normal(size=SEEDS)
    return mean + spread * (noise - noise.mean()) / noise.std()


def test_schemes_far_apart_stand_in_order() -> None:
    found = order(np.array([scheme(9), scheme(1), scheme(5)]))
    assert found.groups == ((1,), (2,), (0,))
    assert (found.pairs, found.apart, found.seeds) == (3, 3, SEEDS)


def test_a_scheme_between_two_joins_them() -> None:
    low, high = scheme(1), scheme(2)
    between = scheme(1.5, spread=3.0)
    assert order(np.array([high, low])).groups == ((1,), (0,))
    found = order(np.array([high, between, low, scheme(99)]))
    assert found.groups == ((2, 1, 0), (3,))
    assert found.apart == 4  # low and high are apart, and all from the last
    assert found.pairs == 6


def test_neighbours_that_differ_do_not_make_a_cut() -> None:
    wide, low, high = scheme(1.4, spread=3.0), scheme(1.5), scheme(2)
    found = order(np.array([high, low, wide]))
    assert found.groups == ((2, 1, 0),)
    assert found.apart == 1


def test_few_seeds_give_no_order() -> None:
    values = np.array([scheme(1)[:5], scheme(9)[:5]])
    found = order(values)
    assert (found.groups, found.left_out, found.seeds) == ((), (0, 1), 5)
    assert (found.pairs, found.common) == (0, (0, 0))
    assert order(np.full((2, 0), np.nan)).groups == ()


def test_a_scheme_with_few_seeds_holds_up_no_other() -> None:
    few = scheme(5)
    few[5:] = np.nan
    none = np.full(SEEDS, np.nan)
    found = order(np.array([few, scheme(9), scheme(1), none]))
    assert found.groups == ((2,), (1,))
    assert found.left_out == (0,)
    assert found.common == (SEEDS, SEEDS)
    later = scheme(20)
    later[0] = np.nan
    found = order(np.array([later, scheme(9), scheme(1)]))
    assert (found.groups, found.common) == (((2,), (1,), (0,)), (SEEDS - 1, SEEDS))


def test_what_differs_the_wrong_way_round_is_no_order() -> None:
    # By their common seeds a is below b; its other seed lifts its mean above.
    a, b = scheme(1, 0.01), scheme(2, 0.01)
    a[0], b[0] = 60.0, np.nan
    assert a.mean() > np.nanmean(b)
    assert order(np.array([a, b])).groups == ((1, 0),)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("common", [0, 5])
def test_pairs_of_too_few_common_seeds_are_not_apart(common: int) -> None:
    values = np.full((2, 12), np.nan)
    values[0, : 6 + common], values[1, 6:] = 1.0, 2.0
    found = order(values)
    assert (found.groups, found.seeds) == ((), common)
    assert (found.pairs, found.apart, found.common) == (0, 0, (0, 0))


@pytest.mark.parametrize("factor", [1e200, 1e-200])
def test_numbers_of_any_size_are_tested_and_have_intervals(factor: float) -> None:
    levels = np.array([[0.0], [5.0], [9.0]])
    values = np.random.default_rng(37).normal(size=(3, 8)) + levels
    np.testing.assert_array_equal(adjusted_p(values * factor), adjusted_p(values))
    width = half_width(values[0] * factor)
    assert width / factor == pytest.approx(half_width(values[0]), rel=1e-12)


def test_pairs_apart_are_those_of_small_p() -> None:
    values = np.random.default_rng(36).normal(size=(6, SEEDS))
    values += 0.8 * np.arange(6.0)[:, None]
    p = adjusted_p(values)[np.triu_indices(6, 1)]
    assert ((p > 0.035) & (p <= 0.05)).any()
    assert order(values).apart == (p <= 0.05).sum()


def test_the_most_seeds_are_those_that_two_schemes_have() -> None:
    values = np.full((4, 9), np.nan)
    for i, seeds in enumerate((2, 9, 5, 7)):
        values[i, :seeds] = RNG.normal(size=seeds)
    assert order(values).seeds == 7
