"""The windows of the test text behind a mean, where records keep them.

A record of a curve may hold `document_bits`, the mean of every window at every x of
the curve, and `window_documents`, the document that each window is from. A mean over
seeds that read the same windows then has an interval over both. Of several curves of a
record, windows belong to the one whose numbers are their means.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from posenc_compare.analysis.core.quantities import Array, Curve
from posenc_compare.analysis.records.load import DOCUMENTS
from posenc_compare.analysis.records.record import Record
from posenc_compare.stats.documents import crossed_half_width

SCORES, OWNERS = DOCUMENTS
SAME = 1e-4  # relative; records keep five digits of a window, and all of their mean
Place = tuple[str, float]
"""Quantity and x of a point of a curve."""


class Windows:
    """The scores of every window of some records, by seed.

    Args:
        records: of one scheme, with different seeds.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.scores: dict[Place, dict[int, NDArray[np.float64]]] = {}
        self.owners: dict[int, NDArray[np.float64]] = {}
        for record in records:
            owners = _numbers(record.arrays.get(OWNERS), 0)
            if not len(owners):
                continue
            self.owners[record.spec.seed] = owners
            for place, scores in _scores(record, len(owners)).items():
                self.scores.setdefault(place, {})[record.spec.seed] = scores

    def documents(self, place: Place, seeds: Iterable[int]) -> int:
        """Return how many documents all these seeds read.

        It is 0 if they did not read the same ones, or only one, whose choice nothing
        tells of.
        """
        owners = [self.owners.get(seed) for seed in seeds]
        first = owners[0] if owners else None
        known = self.scores.get(place, {})
        if first is None or not known.keys() >= set(seeds):
            return 0
        same = all(one is not None and np.array_equal(first, one) for one in owners)
        count = len(np.unique(first))
        return count if same and count > 1 else 0

    def half_width(self, place: Place, seeds: Iterable[int]) -> float:
        """Return the half width over seeds and documents, which all must have read."""
        scores = np.array([self.scores[place][seed] for seed in seeds])
        return crossed_half_width(scores, self.owners[next(iter(seeds))])


def _scores(record: Record, windows: int) -> dict[Place, NDArray[np.float64]]:
    """Return the scores of all windows, by the place on the record's curve."""
    array = record.arrays.get(SCORES)
    found: dict[Place, NDArray[np.float64]] = {}
    for view in record.views.values():
        name = view.quantity.name
        own = [r for r in record.rows if r.quantity == name and not r.case]
        at = {r.x: r.value for r in own if r.x is not None}
        if isinstance(view, Curve) and isinstance(array, list):
            for x, one in zip(sorted(at), array, strict=False):
                scores, value = _numbers(one, windows), at[x]
                if len(scores) and value is not None:
                    if math.isclose(scores.mean(), value, rel_tol=SAME):
                        found[name, x] = scores
    return found


def _numbers(array: Array, size: int) -> NDArray[np.float64]:
    """Return a flat array of finite numbers; an empty one for anything else.

    Args:
        array: of a record, which may be a stranger's.
        size: that it must have; 0 is any.
    """
    values = array if isinstance(array, list) else []
    fit = all(
        isinstance(value, int | float) and math.isfinite(value) for value in values
    )
    return np.array(values if fit and size in (0, len(values)) else [], np.float64)
