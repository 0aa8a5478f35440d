"""What the accuracies of one network at all test lengths say together."""

import numpy as np

from posenc_compare.measures.measure import Curve, Headline, Quantity, Row, View

ENOUGH = 0.9
"""Accuracy up to which a length counts as mastered."""
EXACT = Quantity(
    "exact_match",
    unit="share",
    better="higher",
    zero="no sequence has all scored tokens right",
    x="test length, in tokens",
    title="exact match",
)
AREA = Quantity(
    "accuracy_area",
    unit="share",
    better="higher",
    zero="no scored token is predicted at any length",
    title="area under accuracy",
)
MASTERED = Quantity(
    "mastered_length",
    unit="tokens",
    better="higher",
    zero="not even the training length is mastered",
    title=f"length up to {ENOUGH:.0%} accuracy",
)
ACCURACY_QUANTITIES = (EXACT, AREA, MASTERED)
ACCURACY_VIEWS: tuple[View, ...] = (Curve(EXACT), Headline(AREA), Headline(MASTERED))


def accuracy_rows(accuracies: dict[int, float | None]) -> list[Row]:
    """Return the area under the accuracies and the length that is mastered.

    Args:
        accuracies: by test length, in order; None where the scheme is not defined.

    Returns:
        The area under the accuracy over the logarithm of the length, in shares of what
        a perfect score has: a length that is not defined counts as 0. The greatest
        length up to which, at every shorter one too, the accuracy is at least `ENOUGH`.
    """
    known = np.array([value or 0.0 for value in accuracies.values()])
    area = known.mean() if len(known) < 2 else (known[1:] + known[:-1]).mean() / 2
    mastered = 0
    for length, value in accuracies.items():
        if value is None or value < ENOUGH:
            break
        mastered = length
    return [Row(AREA.name, float(area)), Row(MASTERED.name, mastered)]
