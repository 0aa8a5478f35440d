"""Binary positions against Python's own binary digits."""

import pytest
import torch
from schemes.tools import close, normal
from torch import Tensor

from posenc_compare.errors import ConfigError, ShapeError, UndefinedPositionError
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


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    ("bits", "width"), [(1, 1), (3, 3), (3, 8), (4, 9), (5, 16), (6, 11)]
)
def test_equals_the_slow_reference(bits: int, width: int, signed: bool) -> None:
    positions = list(range(2**bits))
    x = normal(2, len(positions), width)
    got = make(width, bits=bits, signed=signed).embed(x, torch.tensor(positions))
    rows = [slow_code(p, bits, width, signed) for p in positions]
    expected = x + torch.tensor(rows, dtype=torch.float64)
    close(got, expected)


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


@pytest.mark.parametrize(
    ("length", "bits"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (512, 9), (513, 10)]
)
def test_default_bits_are_what_the_length_needs(length: int, bits: int) -> None:
    scheme = make(16, length)
    last = [2**bits - 1]
    expected = slow_code(last[0], bits, 16, False)
    assert code_of(scheme, last, 16)[0].tolist() == expected
    with pytest.raises(
        UndefinedPositionError,
        match=f"binary: positions must be from 0 to {2**bits - 1}, got {2**bits}",
    ):
        code_of(scheme, [2**bits], 16)


def test_negative_positions_are_an_error() -> None:
    with pytest.raises(UndefinedPositionError, match="from 0 to 7, got -1"):
        code_of(make(), [0, -1], 8)


def test_every_position_has_its_own_code() -> None:
    codes = code_of(make(9, 512), list(range(512)), 9)
    assert codes.unique(dim=0).shape == (512, 9)


def test_each_option_changes_the_output() -> None:
    default = code_of(make(), [5], 8)
    assert not torch.equal(default, code_of(make(bits=4), [5], 8))
    assert not torch.equal(default, code_of(make(signed=True), [5], 8))


def test_bfloat16_keeps_close_positions_apart() -> None:
    positions = [15962, 15966, 15968]  # the first two are one number in bfloat16
    scheme = make(16, 16384)
    x = normal(1, 3, 16).bfloat16()
    got = scheme.embed(x, torch.tensor(positions))
    rows = [slow_code(p, 14, 16, False) for p in positions]
    exact = x.double() + torch.tensor(rows, dtype=torch.float64)
    assert torch.equal(got, exact.bfloat16())  # bits are exact: one rounding
    assert code_of(scheme, positions, 16).unique(dim=0).shape[0] == 3


def test_too_narrow_for_the_bits() -> None:
    with pytest.raises(
        ShapeError, match="binary: the width must hold 9 bits, got 8 channels"
    ):
        code_of(make(8, 512), [1], 8)


@pytest.mark.parametrize("bits", [-1, 63])
def test_bits_out_of_range(bits: int) -> None:
    with pytest.raises(
        ConfigError, match=f"binary: bits must be from 0 to 62, got {bits}"
    ):
        make(bits=bits)
