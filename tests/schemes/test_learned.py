"""Learned positions against reading the table row by row."""

from typing import Any

import pytest
import torch
from schemes.reference import Case, EmbedTests
from schemes.tools import build, normal

from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes.learned import Learned


def make(seed: int = 0, length: int = 12, **options: float) -> Learned:
    sizes = {"model_dim": 6, "heads": 1, "length": length}
    return build(Learned, options, seed=seed, **sizes)


class TestLearned(EmbedTests):
    name = "learned"
    sizes = {"model_dim": 6, "heads": 1, "length": 12}
    places = [[0, 11, 3, 3], [5, 4, 0, 11]]
    half = Case(length=16_000)
    wrong_width = 8, "the width must be 6, as the table's, got 8"
    changes = [{"std": 0.1}, {"length": 13}]
    errors = [
        ({"length": -4}, "length must be at least 1, got -4"),
        ({"std": -1.0}, "std"),
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        return scheme.table[position].tolist()


def test_the_table_has_as_many_rows_as_the_length() -> None:
    assert make(length=12).table.shape == (12, 6)
    assert build(Learned, {"length": 7}, length=5).table.shape == (7, 512)


@pytest.mark.parametrize(
    ("position", "options"), [(12, {}), (-1, {}), (5, {"length": 5})]
)
def test_positions_off_the_table_are_an_error(
    position: int, options: dict[str, int]
) -> None:
    last = options.get("length", 12) - 1
    scheme = make(**options)
    with pytest.raises(
        UndefinedPositionError,
        match=f"learned: positions must be from 0 to {last}, got {position}",
    ) as caught:
        scheme.embed(normal(1, 2, 6), torch.tensor([0, position]))
    assert caught.value.limit == last + 1


def test_permuting_rows_is_permuting_positions() -> None:
    scheme, other, x = make(), make(), normal(1, 12, 6)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        other.table.copy_(scheme.table[order])
    assert torch.equal(other.embed(x, torch.arange(12)), scheme.embed(x, order))
