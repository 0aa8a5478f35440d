"""Extrapolation of scores that are made, so that every figure is known by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc_compare.measures import extrapolation as measure
from posenc_compare.measures.accuracy import accuracy_rows
from posenc_compare.measures.measure import Result
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.settings.training import Training
from posenc_compare.tasks.task import Batch, Task
from posenc_compare.train.evaluation import exact_match
from posenc_compare.train.progress import Progress

LOSSES = [*map(float, range(20))]
SCORES = {
    2: torch.tensor([[0.0, 1], [1, 0]]),
    4: torch.tensor([[1.0, 1, 0, 1], [1, 0, 0, 1]]),
}
WEIGHTS = {
    2: torch.tensor([[0.0, 1], [1, 1]]),
    4: torch.tensor([[0.0, 0, 1, 1], [1, 1, 1, 1]]),
}
HARDER = {  # other places count
    2: torch.tensor([[1.0, 0], [1, 0]]),
    4: torch.tensor([[0.0, 1, 0, 0], [1, 0, 0, 0]]),
}


class Made(Task):
    """A task whose places count as the tables above say."""

    def batch(self, step: int, seed: int) -> Batch:
        raise NotImplementedError

    def test(self, length: int) -> Batch:
        return self._weighed(WEIGHTS[length])

    def variations(self, length: int) -> dict[str, Batch]:
        return {"harder": self._weighed(HARDER[length])}

    def floors(self, length: int) -> dict[str, Tensor]:
        halves = torch.zeros(2, length)
        halves[0] = 1  # the first sequence is right
        return {"constant": halves}

    @staticmethod
    def _weighed(weights: Tensor) -> Batch:
        tokens = torch.zeros(weights.shape).long()
        return Batch(tokens, tokens, weights)


class Sliding(Made):
    """A task of windows that slide, of which the last places count."""

    def test(self, length: int) -> Batch:
        tokens = torch.zeros(8 // length, length).long()
        return Batch(tokens, tokens)

    def sliding(self, context: int, stride: int) -> Batch:
        weights = torch.zeros(4 // stride, context)
        weights[:, -stride:] = 1
        return self._weighed(weights)

    def variations(self, length: int) -> dict[str, Batch]:
        return {}

    def floors(self, length: int) -> dict[str, Tensor]:
        return {}


def scores_of(batch: Batch, case: str) -> Tensor:
    """Return made scores: those of the table, or 1 everywhere."""
    count, length = batch.tokens.shape
    if case == "sliding":  # the context where a place counts, and 100 elsewhere
        assert batch.weights is not None
        return torch.where(batch.weights > 0, float(length), 100.0)
    if case in ("", "harder") and batch.weights is not None:
        return SCORES[length]
    return torch.ones(count, length)


def measured(
    monkeypatch: pytest.MonkeyPatch,
    task: type[Made],
    name: str,
    length: int,
    **more: Any,
) -> tuple[dict[Any, Any], Result]:
    """Return rows by quantity, length and case of a network that is not trained."""
    setting = Training(task=name, length=length, longest=2, test_bytes=8, **more)
    own = Variant("rope").build(Geometry(model_dim=8, heads=1, length=length))
    trainer = SimpleNamespace(
        task=task(setting),
        model=SimpleNamespace(own=[own]),
        train=lambda _: LOSSES,
    )
    tests = SimpleNamespace(
        resume=lambda _: None, run=lambda batch, case, *_: scores_of(batch, case)
    )
    monkeypatch.setattr(measure, "trainer_of", lambda *_: trainer)
    monkeypatch.setattr(measure, "Tests", lambda *_: tests)
    found = measure.extrapolation(Variant("rope"), setting, Progress())
    return {(r.quantity, r.x, r.case): r.value for r in found.rows}, found


def test_every_figure_counts_the_places_of_its_own_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, found = measured(monkeypatch, Made, "flip_flop", 2)
    # Of places that count: 1 of 1 and 1 of 2, then 1 of 2 and 2 of 4.
    assert rows["accuracy", 2, ""] == pytest.approx(2 / 3)
    assert rows["accuracy", 4, ""] == pytest.approx(3 / 6)
    assert rows["accuracy_area", None, ""] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert rows["exact_match", 2, ""] == 0.5
    assert rows["exact_match", 4, ""] == 0
    assert rows["read_accuracy", 2, "harder"] == 0.5
    assert rows["read_accuracy", 4, "harder"] == 1
    assert rows["read_accuracy", 4, "yarn"] == 1
    assert rows["floor_accuracy", 2, "constant"] == pytest.approx(1 / 3)
    assert rows["floor_accuracy", 4, "constant"] == pytest.approx(2 / 6)
    assert rows["training_bits_per_token", None, ""] == (18 + 19) / 2
    # Of the longest length, as trained: sums over sequences by 4 places over 6.
    places = found.arrays["position_accuracy"]
    assert places == pytest.approx([4 / 6, 0, 0, 8 / 6])


def test_windows_of_the_training_length_alone_are_the_sliding_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, _ = measured(monkeypatch, Sliding, "language", 4)
    assert rows["sliding_bits_per_byte", None, ""] == 4
    truncated = {x: v for (q, x, _), v in rows.items() if q.startswith("truncated")}
    assert truncated == {2: 2}


def test_tests_by_length_alone_have_no_scaling_and_no_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, _ = measured(monkeypatch, Sliding, "language", 4, tests="lengths")
    assert {*rows} == {
        ("training_bits", None, ""),
        ("bits_per_byte", 4, ""),
        ("bits_per_byte", 8, ""),
    }


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
    assert exact_match(scores, Batch(tokens, tokens, weights)) == 2 / 3
    assert exact_match(scores, Batch(tokens, tokens)) == 0.0
