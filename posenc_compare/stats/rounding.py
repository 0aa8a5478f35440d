"""Numbers and differences that are nothing but rounding."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

NOTHING = 1e-9
"""What is smaller is rounding, as a size or as a spread relative to the size."""


def rounded_away(values: ArrayLike) -> NDArray[np.float64]:
    """Return values of any shape, with 0 where they are smaller than `NOTHING`."""
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.abs(array) < NOTHING, 0.0, array)


def levelled(values: ArrayLike) -> NDArray[np.float64]:
    """Return values, of which those that rounding alone distinguishes are equal.

    Args:
        values: `(n,)`, NaN where a number is missing. Two neighbours are equal if they
            differ by `NOTHING` relative to their size.
    """
    array = rounded_away(values)
    finite = np.flatnonzero(np.isfinite(array))
    if finite.size:
        order = finite[np.argsort(array[finite])]
        ordered = array[order]
        apart = difference(ordered[1:], ordered[:-1]) > 0
        first = np.flatnonzero([True, *apart])
        array[order] = ordered[first][np.cumsum([0, *apart])]
    return array


def difference(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return first minus second; 0 where that is `NOTHING` relative to their sizes.

    Args:
        first: of any shape; NaN where a number is missing.
        second: of the same shape, or of one that broadcasts.
    """
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    found = one - other
    size = np.maximum(np.abs(one), np.abs(other))
    return np.where(np.abs(found) <= NOTHING * size, 0.0, found)


def scale_down(values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return values below 1, whose squares are numbers, and how to undo that.

    Args:
        values: `(..., n)`, finite.

    Returns:
        `(..., n)` and `(..., 1)`, the exponent of two that each row was divided by.
    """
    array = np.asarray(values, np.float64)
    _, power = np.frexp(np.abs(array).max(axis=-1, keepdims=True))
    return np.ldexp(array, -power), power


def settled(values: ArrayLike) -> bool:
    """Return whether all values are the same number, up to rounding.

    There must be at least one value, and all must be finite.
    """
    array = rounded_away(values)
    return bool(np.ptp(array) <= NOTHING * np.max(np.abs(array)))
