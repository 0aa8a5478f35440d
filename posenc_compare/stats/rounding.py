"""Numbers and differences that are nothing but rounding."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

NOTHING = 1e-9
"""What is smaller is rounding, as a size or as a spread relative to the size."""


def rounded_away(values: ArrayLike) -> NDArray[np.float64]:
    """Return values of any shape, with 0 where they are smaller than `NOTHING`."""
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.abs(array) < NOTHING, 0.0, array)


def settled(values: ArrayLike) -> bool:
    """Return whether all values are the same number, up to rounding.

    There must be at least one value, and all must be finite.
    """
    array = rounded_away(values)
    return bool(np.ptp(array) <= NOTHING * np.max(np.abs(array)))
