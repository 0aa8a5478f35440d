"""What the accuracies of a network at all test lengths say together."""

import numpy as np
import pytest
import torch

from posenc_compare.measures.accuracy import accuracy_rows
from posenc_compare.tasks.task import Batch
from posenc_compare.train.evaluation import exact_match

LENGTHS = (8, 16, 32, 64, 128)


@pytest.mark.parametrize(
    ("accuracies", "area", "mastered"),
    [
        ((1.0, 1.0, 1.0, 1.0, 1.0), 1.0, 128),
        ((1.0, 0.9, 0.5, 0.95, 0.0), 0.7125, 16),  # never below 0.9 up to there
        ((0.8, 1.0, 1.0, 1.0, 1.0), 0.975, 0),
        ((1.0, 1.0, None, None, None), 0.375, 16),  # undefined lengths count 0
        ((1.0, None, 1.0, 1.0, 1.0), 0.75, 8),
        ((0.25,), 0.25, 0),
    ],
)
def test_area_and_length(
    accuracies: tuple[float | None, ...], area: float, mastered: int
) -> None:
    rows = accuracy_rows(dict(zip(LENGTHS, accuracies, strict=False)))
    found = {row.quantity: row.value for row in rows}
    assert found["accuracy_area"] == pytest.approx(area)
    assert found["mastered_length"] == mastered
    if len(accuracies) > 1:  # the trapezoidal rule over the logarithm, by numpy
        x = np.log2(LENGTHS) / 4
        whole = np.trapezoid([value or 0.0 for value in accuracies], x)
        assert found["accuracy_area"] == pytest.approx(whole)


def test_exact_match_wants_every_token_that_counts() -> None:
    scores = torch.tensor([[1.0, 0, 1], [1, 1, 0], [0, 0, 0], [0, 0, 1]])
    weights = torch.tensor([[1.0, 0, 1], [1, 1, 1], [0, 0, 0], [0, 0, 2]])
    tokens = torch.zeros(4, 3, dtype=torch.int64)
    assert exact_match(scores, Batch(tokens, tokens, weights)) == 0.75
    assert exact_match(scores, Batch(tokens, tokens)) == 0.0
