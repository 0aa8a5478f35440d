"""Which pairs of schemes differ: one test for all pairs of a table.

Step-down max-T of Westfall and Young (1993, section 4.1; as an algorithm in Ge, Dudoit
and Speed 2003, Box 2). Under the hypothesis that two schemes score alike, the
difference of a seed is as likely to be `d` as `-d`. A flip draws one sign for each seed
and gives it to the differences of all pairs, so that the dependence between pairs stays
as it is; the p value of a pair is the share of flips whose largest |t| reaches its own.
It controls the chance of any false claim in the table, and needs no correction besides.

With n seeds there are 2 ** (n - 1) flips that differ in |t|, and no p value is smaller
than one over their number: 0.0625 for 5 seeds, 0.03125 for 6.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc_compare.stats.level import FEWEST
from posenc_compare.stats.rounding import difference, scale_down

EXACT = 15  # seeds up to which every flip is counted; beyond, a sample is
SEED = 0
FLIPS_AT_ONCE = 2048  # flips at a time
SLACK = 1e-8  # relative; equal sums of other order differ by less
STEADY = 1e-6  # share of the squared differences that is not the mean, at the least


def adjusted_p(values: ArrayLike) -> NDArray[np.float64]:
    """Return the p value of every pair of schemes, adjusted for all pairs.

    Args:
        values: `(schemes, seeds)`; NaN where a seed failed. A pair is compared on the
            seeds that both have.

    Returns:
        `(schemes, schemes)`, symmetric, in [0, 1]; NaN on the diagonal and for pairs
        of fewer than `FEWEST` common seeds, which are not in the family of tests.
    """
    array = np.asarray(values, dtype=np.float64)
    schemes = len(array)
    first, second = np.triu_indices(schemes, 1)
    found = np.full((schemes, schemes), np.nan)
    p = adjusted_p_of(difference(array[first], array[second]))
    found[first, second] = found[second, first] = p
    return found


def adjusted_p_of(differences: ArrayLike) -> NDArray[np.float64]:
    """Return the p value of each of some pairs, adjusted for all of these.

    Args:
        differences: `(pairs, seeds)`; NaN where a seed failed.

    Returns:
        `(pairs,)`, in [0, 1]; NaN for pairs of fewer than `FEWEST` seeds, which are not
        in the family of tests.
    """
    array = np.asarray(differences, dtype=np.float64)
    counts = np.isfinite(array).sum(1)
    tested = counts >= FEWEST
    found = np.full(len(array), np.nan)
    if tested.any():
        some = scale_down(np.nan_to_num(array[tested]))[0]  # which leaves t as it is
        found[tested] = _step_down(some, counts[tested], array.shape[1])
    return found


def _step_down(
    differences: NDArray[np.float64], counts: NDArray[np.int64], seeds: int
) -> NDArray[np.float64]:
    """Return the adjusted p value of each pair.

    Args:
        differences: `(pairs, seeds)`, 0 where one is missing.
        counts: `(pairs,)`, how many are not.
        seeds: of all schemes.
    """
    observed = _t(np.ones((1, seeds)), differences, counts)[0]
    order = np.argsort(-observed, kind="stable")
    differences, counts = differences[order], counts[order]
    # A difference that is rounding is none, and every flip reaches it.
    least = np.where(observed > SLACK, observed * (1 - SLACK), 0.0)[order]
    reached, flips = np.zeros(len(order)), 0
    for signs in _flips(seeds):
        t = _t(signs, differences, counts)
        largest = np.maximum.accumulate(t[:, ::-1], axis=1)[:, ::-1]
        reached += (largest >= least).sum(0)
        flips += len(signs)
    found = np.empty(len(order))
    found[order] = np.maximum.accumulate(reached / flips)
    return found


def _t(
    signs: NDArray[np.float64],
    differences: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return |t| of every flip and pair, `(flips, pairs)`; 0 for equal schemes.

    A flip leaves the sum of squares as it is, so that t follows from the sum alone.
    """
    squares = (differences**2).sum(1)
    scale = np.sqrt(np.where(squares > 0, squares, 1.0))
    size = ((signs @ (differences / scale[:, None]).T) ** 2) / counts
    return np.sqrt(size * (counts - 1) / np.maximum(1 - size, STEADY))


def _flips(seeds: int) -> Iterator[NDArray[np.float64]]:
    """Yield all flips in blocks `(flips, seeds)`, or a sample, the plain one first.

    The first sign stays: all signs turned round give the same |t|.
    """
    free = seeds - 1
    if seeds <= EXACT:
        for start in range(0, 1 << free, FLIPS_AT_ONCE):
            numbers = np.arange(start, min(start + FLIPS_AT_ONCE, 1 << free))
            bits = numbers[:, None] >> np.arange(free) & 1
            yield (1 - 2 * np.pad(bits, ((0, 0), (1, 0)))).astype(np.float64)
        return
    rng = np.random.default_rng(SEED)
    for start in range(0, 1 << (EXACT - 1), FLIPS_AT_ONCE):
        signs = rng.integers(2, size=(FLIPS_AT_ONCE, seeds)).astype(np.float64) * 2 - 1
        if start == 0:
            signs[0] = 1.0
        yield signs
