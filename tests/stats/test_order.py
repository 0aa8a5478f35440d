"""Groups of schemes that the test of all pairs tells apart."""

import numpy as np
import pytest

from posenc_compare.stats.order import order
from posenc_compare.stats.pairs import adjusted_p

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
    assert found.groups == ((0, 1),)
    assert (found.pairs, found.apart, found.common) == (0, 0, (0, 0))


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
