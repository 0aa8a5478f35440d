"""The 95 % interval of a mean over seeds and over the documents of a test text.

Every seed reads the same documents, so the two are crossed and not nested: a document
that is hard is hard for every seed, and more seeds do not average it away. So documents
are resampled whole and alike for all seeds, as crossed data must be (Owen 2007, "The
pigeonhole bootstrap"); seeds, which are few, keep their t interval. The two half widths
add in quadrature, so that neither source of noise hides the other.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc_compare.stats.intervals import half_width, t_quantile

DRAWS = 2000
SEED = 0


def crossed_half_width(scores: ArrayLike, documents: ArrayLike) -> float:
    """Return the half width of the interval of a mean over seeds and documents.

    Args:
        scores: `(seeds, windows)`, finite, all windows of one size.
        documents: `(windows,)`, whole numbers; the document of each window.

    Returns:
        It in the unit of the scores; NaN for fewer than two seeds or two documents.
    """
    array = np.asarray(scores, dtype=np.float64)
    names = np.asarray(documents)
    return math.hypot(half_width(array.mean(1)), _of_documents(array.mean(0), names))


def _of_documents(scores: NDArray[np.float64], documents: NDArray[np.int64]) -> float:
    """Return the half width over documents of a mean of windows `(windows,)`.

    The bootstrap draws as many documents as there are, so its error is that of a
    variance divided by their number `n`; dividing by `n - 1` and Student's t make up
    for how few they are.
    """
    known, place = np.unique(documents, return_inverse=True)
    n = len(known)
    if n < 2:
        return math.nan
    sums = np.bincount(place, scores)
    sizes = np.bincount(place)
    times = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), DRAWS)
    means = (times @ sums) / (times @ sizes)
    return float(t_quantile(n - 1) * means.std() * math.sqrt(n / (n - 1)))
