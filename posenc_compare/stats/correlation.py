"""Does one number of a scheme predict another? Spearman's correlation over schemes.

Bootstraps resample schemes by weights: a scheme drawn twice weighs two. Ranks are taken
anew in every draw. Intervals are BCa intervals (Efron 1987), for percentiles of rank
correlations are biased and may leave out the estimate.
"""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from posenc_compare.stats.intervals import LEVEL
from posenc_compare.stats.rounding import levelled

DRAWS = 2000
PERMUTATIONS = 9999
SEED = 0
FEWEST = 4
"""Schemes below which no correlation is computed."""
FEWEST_DRAWN = 6
"""Schemes below which there is no bootstrap interval."""

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Correlation:
    """What one quantity says of an outcome.

    Attributes:
        n: schemes that have both.
        rho: Spearman's correlation; NaN where either is the same for all.
        over_schemes: 95 % interval, schemes resampled; NaN for fewer than
            `FEWEST_DRAWN`.
        given: partial correlation, given the control.
        p: of a permutation test, two-sided.
    """

    n: int
    rho: float
    over_schemes: tuple[float, float]
    given: float
    p: float


def correlation(x: ArrayLike, y: ArrayLike, control: ArrayLike) -> Correlation | None:
    """Return what a quantity says of an outcome, over schemes.

    Args:
        x: the quantity of every scheme; NaN where it has none. Numbers that rounding
            alone distinguishes are ties.
        y: the outcome of every scheme, likewise.
        control: a number of every scheme that could explain both.

    Returns:
        It, or None for fewer than `FEWEST` schemes that have both.
    """
    x, y = levelled(x), levelled(y)
    known = np.isfinite(x) & np.isfinite(y)
    n = int(known.sum())
    if n < FEWEST:
        return None
    x, y = x[known], y[known]
    z = np.asarray(control, dtype=np.float64)[known]
    once = np.ones((1, n))
    draws, orders = _draws(n)
    return Correlation(
        n,
        float(spearman(x, y, once)[0]),
        _interval(x, y, draws),
        _partial(x, y, z, once),
        _permutation_p(x, y, orders),
    )


@functools.lru_cache(maxsize=8)
def _draws(n: int) -> tuple[Counts, Counts]:
    """Return how often each scheme is drawn, and permutations of schemes.

    Returns:
        `(draws, n)` and `(permutations, n)`, the same at every call.
    """
    rng = np.random.default_rng(SEED)
    draws = rng.multinomial(n, np.full(n, 1 / n), DRAWS)
    orders = rng.permuted(np.tile(np.arange(n), (PERMUTATIONS, 1)), axis=1)
    return draws, orders


def spearman(x: Floats, y: Floats, weights: ArrayLike) -> Floats:
    """Return the rank correlation of weighted schemes.

    Args:
        x: `(schemes,)`.
        y: `(schemes,)`.
        weights: `(draws, schemes)`, how often each scheme counts.

    Returns:
        `(draws,)`; NaN where all that count have the same `x` or the same `y`.
    """
    weights = np.asarray(weights, dtype=np.float64)
    a, b = (_centred_ranks(values, weights) for values in (x, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (weights * a * b).sum(1) / np.sqrt(
            (weights * a * a).sum(1) * (weights * b * b).sum(1)
        )


def holm(p: ArrayLike) -> Floats:
    """Return p values adjusted by Holm (1979) for as many tests as are not NaN."""
    array = np.asarray(p, dtype=np.float64)
    found = np.full(array.shape, np.nan)
    known = np.flatnonzero(np.isfinite(array))
    ranked = known[np.argsort(array[known], kind="stable")]
    scaled = array[ranked] * np.arange(len(ranked), 0, -1)
    found[ranked] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return found


def _centred_ranks(values: Floats, weights: Floats) -> Floats:
    """Return ranks minus their mean, `(draws, schemes)`; equal values share a rank."""
    below = (values[None] > values[:, None]).astype(float)  # [j, i]: j below i
    equal = (values[None] == values[:, None]).astype(float)
    ranks = weights @ (below + equal / 2)
    return ranks - (weights * ranks).sum(1, keepdims=True) / weights.sum(
        1, keepdims=True
    )


def _interval(x: Floats, y: Floats, draws: Counts) -> tuple[float, float]:
    """Return the BCa interval of a correlation; NaN for too few schemes.

    Args:
        x: `(schemes,)`.
        y: `(schemes,)`.
        draws: `(draws, schemes)`, how often each scheme is drawn.
    """
    if len(x) < FEWEST_DRAWN:
        return (np.nan, np.nan)
    without = spearman(x, y, 1 - np.eye(len(x)))  # each scheme in turn
    found = spearman(x, y, draws)
    rho, found = spearman(x, y, np.ones((1, len(x)))), found[np.isfinite(found)]
    if not (len(found) and np.isfinite([*rho, *without]).all()):
        return (np.nan, np.nan)
    steps = without.mean() - without
    spread = (steps**2).sum()
    skew = (steps**3).sum() / (6 * spread**1.5) if spread > 0 else 0.0
    below = ((found < rho).mean() + (found <= rho).mean()) / 2
    shift = ndtri(below)  # infinite if all draws are on one side
    ends = shift + ndtri(np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    shares = ndtr(shift + ends / (1 - skew * ends))
    if not np.isfinite(shares).all():
        return (np.nan, np.nan)
    low, high = np.quantile(found, shares)
    return float(low), float(high)


def _partial(x: Floats, y: Floats, z: Floats, once: Floats) -> float:
    """Return the correlation of ranks that a third number leaves."""
    xy, xz, yz = (float(spearman(*pair, once)[0]) for pair in ((x, y), (x, z), (y, z)))
    left = (1 - xz**2) * (1 - yz**2)
    return float((xy - xz * yz) / np.sqrt(left)) if left > 1e-12 else np.nan


def _permutation_p(x: Floats, y: Floats, orders: Counts) -> float:
    """Return the share of permutations with a correlation as large; NaN for none."""
    once = np.ones((1, len(x)))
    a, b = _centred_ranks(x, once)[0], _centred_ranks(y, once)[0]
    if not (a.any() and b.any()):
        return np.nan
    as_large = np.abs(b[orders] @ a) >= abs(a @ b) * (1 - 1e-9)
    return float((1 + as_large.sum()) / (1 + PERMUTATIONS))
