"""What the accuracies of a network at all test lengths say together."""

import numpy as np
import pytest
import torch

from posenc_compare.measures.accuracy import accuracy_rows
from posenc_compare.measures.extrapolation import extrapolation
from posenc_compare.settings.training import Training
from posenc_compare.tasks.task import Batch
from posenc_compare.train.evaluation import exact_match
from posenc_compare.train.progress import Progress
from posenc_compare.variants import Variant

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


def test_a_trained_task_has_all_scores_at_all_lengths() -> None:
    setting = Training(
        task="flip_flop",
        layers=1,
        width=16,
        heads=2,
        length=16,
        longest=4,
        steps=2,
        batch=4,
        test_bytes=256,
    )
    rows = extrapolation(Variant("learned"), setting, Progress()).rows
    found = {(row.quantity, row.x, row.case): row for row in rows}
    lengths = [16.0, 32.0, 64.0]
    for quantity in ("accuracy", "exact_match"):
        assert [x for q, x, _ in found if q == quantity] == lengths
        assert found[quantity, 16, ""].value is not None
        assert found[quantity, 32, ""].note == "not defined beyond 16"
    cases = {case for q, x, case in found if q == "read_accuracy" and x == 16}
    assert cases == {"sparse", "dense"}
    assert {case for q, _, case in found if q == "floor_accuracy"} == {"constant"}
    first = found["accuracy", 16, ""].value
    assert first is not None
    assert found["accuracy_area", None, ""].value == pytest.approx(first / 4)
