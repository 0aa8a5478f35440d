"""The 95 % intervals of a mean over seeds, by Student's t, and of a share, by Wilson.

A standard deviation of three seeds says little: its own 95 % interval is from 0.52 to
6.3 times itself. The half width of the t interval counts that in.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from posenc_compare.stats.rounding import scale_down

LEVEL = 0.95
"""Coverage of every interval."""


def t_quantile(freedom: int) -> float:
    """Return the quantile of Student's t that bounds `LEVEL` from both sides.

    Args:
        freedom: degrees of freedom, at least 1.
    """
    return float(stdtrit(freedom, (1 + LEVEL) / 2))


def half_width(values: ArrayLike) -> float:
    """Return the half width of the interval of a mean.

    Args:
        values: one for each seed; those that are not finite are missing.

    Returns:
        It in the unit of the values; NaN for fewer than two.
    """
    array = np.asarray(values, dtype=np.float64)
    known = array[np.isfinite(array)]
    if len(known) < 2:
        return math.nan
    small, power = scale_down(known)
    error = small.std(ddof=1) / math.sqrt(len(known))
    return float(np.ldexp(t_quantile(len(known) - 1) * error, power[0]))


def wilson(found: float, asked: float) -> tuple[float, float]:
    """Return the ends of Wilson's interval of a share.

    Source: Wilson 1927, Journal of the American Statistical Association 22, 209-212.
    """
    z = float(ndtri((1 + LEVEL) / 2))
    share, weight = found / asked, z * z / asked
    middle = (share + weight / 2) / (1 + weight)
    width = (
        z / (1 + weight) * math.sqrt(share * (1 - share) / asked + weight / asked / 4)
    )
    # Of a share of 0 or 1 rounding could move the end past it.
    return max(0.0, min(share, middle - width)), min(1.0, max(share, middle + width))
