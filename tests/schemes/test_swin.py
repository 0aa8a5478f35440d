"""Swin's bias against reading the table, one pair at a time."""

import pytest
import torch
from schemes.reference import BiasTests, Case, Inputs
from schemes.tools import (
    build,
    grid,
    normal,
    perturbed,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention
from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes.swin import Swin


def make(
    length: int = 12, heads: int = 3, trained: bool = True, **options: int | str
) -> Swin:
    sizes = {"model_dim": 8 * heads, "heads": heads, "length": length}
    scheme = build(Swin, options, **sizes)
    return perturbed(scheme, 1.0 if trained else 0.0)


class TestSwin(BiasTests):
    name = "swin"
    sizes = {"heads": 3, "head_dim": 8, "length": 12}
    noise = 1.0
    places = [grid(3, 4).tolist(), grid(3, 4).flip(0).tolist()]
    cases = [{"height": height, "width": width} for height, width in ((3, 4), (5, 4))]
    half = Case({"height": 7, "width": 7})
    starts_as = [({"start": "zeros"}, "nope")]
    changes = [{"height": 5}, {"width": 5}, {"start": "zeros"}]
    errors = [
        ({name: -1}, f"{name} must be at least 1, got -1")
        for name in ("height", "width")
    ]

    def bias(self, t: Inputs, h: int, query: list[int], key: list[int]) -> float:
        height, width = t.option("height"), t.option("width")
        down, right = query[0] - key[0] + height - 1, query[1] - key[1] + width - 1
        return t.scheme.table[down * (2 * width - 1) + right, h].item()


@pytest.mark.parametrize(
    ("length", "side"), [(1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4), (16, 4)]
)
def test_window_is_the_smallest_square(length: int, side: int) -> None:
    scheme = make(length)
    assert (scheme.height, scheme.width) == (side, side)
    assert scheme.table.shape == ((2 * side - 1) ** 2, 3)
    mixed = make(length, width=7)
    assert (mixed.height, mixed.width) == (side, 7)


def test_offsets_off_the_table_are_an_error() -> None:
    scheme, x = make(height=3, width=4), normal(1, 3, 2, 8)

    def look(row: int, column: int) -> Tensor:
        places = torch.tensor([[5, 5], [5 + row, 5 + column]])
        return attention(x, x, x, scheme=scheme, positions=places)

    for row, column in ((2, 3), (-2, -3), (2, -3)):
        assert look(row, column).isfinite().all()
    for row, column, limit in ((3, 0, 3), (-4, 0, 3), (0, 4, 4), (1, -6, 4)):
        apart = max(abs(row), abs(column))
        what, option = ("rows", "height") if limit == 3 else ("columns", "width")
        with pytest.raises(
            UndefinedPositionError,
            match=f"swin: {what} between two cells must be from 0 to {limit - 1}, "
            f"got {apart}; `{option}={apart + 1}` would work",
        ):
            look(row, column)


def test_keys_after_the_queries_may_leave_the_window_too() -> None:
    scheme, x = make(height=3, width=4), normal(1, 3, 2, 8)

    def look(row: int) -> Tensor:
        places = torch.tensor([[5, 5], [5, 6]])
        keys = places + torch.tensor([row, 0])
        return attention(
            x,
            x,
            x,
            scheme=scheme,
            positions=places,
            key_positions=keys,
            mask=Mask(causal=False),
        )

    for row in (-2, 2):
        assert look(row).isfinite().all()
    for row in (-3, 3):
        with pytest.raises(UndefinedPositionError, match=r"swin: rows .*, got 3; "):
            look(row)
