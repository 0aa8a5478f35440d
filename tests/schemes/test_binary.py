"""Binary positions against Python's own binary digits."""

from typing import Any

import pytest
import torch
from schemes.reference import Case, EmbedTests
from torch import Tensor

from posenc_compare.errors import ShapeError, UndefinedPositionError
from posenc_compare.schemes import Scheme, create


def slow_code(position: int, bits: int, width: int, signed: bool) -> list[float]:
    """Digits from the text of the number, repeated while a whole copy fits."""
    text = format(position, "b").rjust(bits, "0")
    digits = [float(sign) for sign in reversed(text)]
    if signed:
        digits = [1.0 if digit else -1.0 for digit in digits]
    code: list[float] = []
    while len(code) + bits <= width:
        code += digits
    return code + [0.0] * (width - len(code))


def make(width: int = 8, length: int = 8, **options: int | bool) -> Scheme:
    return create("binary", options=options, model_dim=width, heads=1, length=length)


def code_of(scheme: Scheme, positions: list[int], width: int) -> Tensor:
    zero = torch.zeros(1, len(positions), width, dtype=torch.float64)
    return scheme.embed(zero, torch.tensor(positions))[0]


class TestBinary(EmbedTests):
    name = "binary"
    sizes = {"model_dim": 8, "heads": 1, "length": 8}
    places = [[0, 1, 2, 3, 4, 5, 6, 7], [7, 3, 3, 2, 0, 1, 6, 5]]
    cases = [
        Case({"bits": bits, "signed": signed}, model_dim=width)
        for bits, width in ((3, 3), (3, 8), (4, 9), (5, 16), (6, 11))
        for signed in (False, True)
    ]
    half = Case(model_dim=16, length=16_384)
    changes = [{"bits": 4}, {"signed": True}]
    errors = [
        *(
            ({"bits": bits}, f"bits must be from 0 to 62, got {bits}")
            for bits in (-1, 63)
        ),
        (Case(length=512), "the width must hold 9 bits, got 8 channels", ShapeError),
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        bits, signed = case.options.get("bits", 14), case.options.get("signed", False)
        return slow_code(position, bits, scheme.geometry.model_dim, signed)


def test_least_significant_bit_comes_first() -> None:
    assert code_of(make(), [1, 2, 4, 6], 8).tolist() == [
        [1, 0, 0, 1, 0, 0, 0, 0],
        [0, 1, 0, 0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0, 1, 0, 0],
        [0, 1, 1, 0, 1, 1, 0, 0],
    ]


def test_signed_writes_minus_one_for_zero_and_leaves_the_rest_empty() -> None:
    signed = code_of(make(signed=True), [5], 8)[0].tolist()
    assert signed == [1, -1, 1, 1, -1, 1, 0, 0]


@pytest.mark.parametrize("position", [-1, 8])
def test_positions_without_a_code_are_an_error(position: int) -> None:
    with pytest.raises(UndefinedPositionError, match=f"from 0 to 7, got {position}"):
        code_of(make(), [0, position], 8)


def test_every_position_has_its_own_code() -> None:
    codes = code_of(make(9, 512), list(range(512)), 9)
    assert codes.unique(dim=0).shape == (512, 9)
