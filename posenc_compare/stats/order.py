"""The order that a test of all pairs allows: groups, the best first.

A significant difference is not transitive: `a` may be below `c` while `b`, between
them, differs from neither. So the list of schemes, sorted by their means, is cut only
where every scheme before the cut differs significantly from every scheme behind it. The
groups are then in an order of which each single pair was tested; two schemes of one
group may differ or not.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc_compare.stats.level import ALPHA, FEWEST
from posenc_compare.stats.pairs import adjusted_p


@dataclass(frozen=True)
class Order:
    """What may be said of the order of schemes.

    Attributes:
        groups: places of the schemes, the smallest mean first; in a group by their
            means. Without a pair of `FEWEST` common seeds there are none.
        left_out: places of schemes with a value, but too few seeds.
        seeds: the most that two schemes have in common.
        common: the fewest and the most seeds that a tested pair has in common.
        pairs: how many were tested.
        apart: how many of these differ.
    """

    groups: tuple[tuple[int, ...], ...]
    left_out: tuple[int, ...]
    seeds: int
    common: tuple[int, int]
    pairs: int
    apart: int


def order(values: ArrayLike) -> Order:
    """Return the order of schemes.

    Args:
        values: `(schemes, seeds)`; NaN where a seed failed.
    """
    array = np.asarray(values, dtype=np.float64)
    counts = np.isfinite(array).sum(1)
    enough = np.flatnonzero(counts >= FEWEST)
    few = tuple(np.flatnonzero((counts > 0) & (counts < FEWEST)).tolist())
    most = most_common(array)
    if most < FEWEST:
        return Order((), few, most, (0, 0), 0, 0)
    means = np.nanmean(array[enough], axis=1)
    ranked = enough[np.argsort(means, kind="stable")]
    p = adjusted_p(array[ranked])
    gaps = np.nansum(array[ranked][None] - array[ranked][:, None], axis=2)
    # [i, j]: i differs significantly from j, and lies below it on their common seeds.
    below = (np.nan_to_num(p, nan=1.0) <= ALPHA) & (gaps > 0)
    cuts = [m for m in range(1, len(ranked)) if below[:m, m:].all()]
    groups = tuple(tuple(part.tolist()) for part in np.split(ranked, cuts))
    pairs = np.triu(np.isfinite(p))
    shared = _common(array[ranked])[pairs]
    return Order(
        groups,
        few,
        most,
        (int(shared.min()), int(shared.max())),
        int(pairs.sum()),
        int((p[pairs] <= ALPHA).sum()),
    )


def most_common(values: ArrayLike) -> int:
    """Return the most seeds that two schemes have in common, 0 for fewer than two.

    Args:
        values: as for `order`.
    """
    array = np.atleast_2d(np.asarray(values, np.float64))
    return int(np.triu(_common(array), 1).max(initial=0))


def _common(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many seeds each two schemes have in common."""
    there = np.isfinite(values).astype(np.int64)
    return there @ there.T
