"""ALiBi against the recursive slope rule of the paper's released code."""

import math
from fractions import Fraction

import pytest
import torch
from schemes.tools import (
    check_causal_mask_is_needed,
    close,
    content_plus,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.shared.slopes import slopes


def make(heads: int = 4, **options: str) -> Scheme:
    return create("alibi", options=options, model_dim=8 * heads, heads=heads)


def recursive_exponents(heads: int) -> list[Fraction]:
    """Powers of 1/2: those of the power of two below, then every second of the next."""
    if heads & (heads - 1) == 0:
        return [Fraction(8 * i, heads) for i in range(1, heads + 1)]
    below = 1
    while 2 * below < heads:
        below *= 2
    finer = recursive_exponents(2 * below)
    return recursive_exponents(below) + finer[0::2][: heads - below]


def slow_bias(queries: list[int], keys: list[int], heads: int) -> Tensor:
    rows = [
        [[-math.pow(0.5, exponent) * abs(q - k) for k in keys] for q in queries]
        for exponent in recursive_exponents(heads)
    ]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("heads", range(1, 65))
def test_slopes_equal_the_recursive_rule(heads: int) -> None:
    expected = [math.pow(0.5, exponent) for exponent in recursive_exponents(heads)]
    assert slopes(heads) == expected


def test_slopes_of_the_paper() -> None:
    eight = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert slopes(1) == [1 / 256]
    assert slopes(8) == eight
    more = [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert slopes(12) == eight + more
    assert slopes(16) == [2 ** (-0.5 * i) for i in range(1, 17)]


@pytest.mark.parametrize("heads", [1, 3, 4])
@pytest.mark.parametrize("causal", [True, False])
def test_equals_the_slow_reference(heads: int, causal: bool) -> None:
    q, k, _ = vectors(2, heads, 6, 8)
    positions = [4, 5, 7, 100, 3, 5]
    got = attention_logits(
        q,
        k,
        scheme=make(heads),
        positions=torch.tensor(positions),
        mask=Mask(causal=causal),
    )
    bias = slow_bias(positions, positions, heads)
    expected = content_plus(q, k, lambda _, h, i, j: float(bias[h, i, j]), causal)
    close(got, expected)


def test_bias_is_zero_on_the_diagonal_linear_and_toeplitz() -> None:
    offsets = torch.arange(-40, 41)
    bias = make().offset_bias(offsets)
    assert bias is not None
    assert (bias[:, 40] == 0).all()
    assert torch.equal(bias, bias.flip(1))
    assert torch.equal(bias[:, 0], 2 * bias[:, 20])
    assert (bias[:, :40].diff() > 0).all()  # the nearer, the larger


def test_bias_is_not_divided_by_the_root_of_the_width() -> None:
    zero = torch.zeros(1, 4, 3, 8, dtype=torch.float64)
    logits = attention_logits(zero, zero, scheme=make(), positions=torch.arange(3))
    assert logits[0, :, 2, 0].tolist() == [-2 / 4, -2 / 16, -2 / 64, -2 / 256]


def test_logits_do_not_change_under_a_shift() -> None:
    q, k, _ = vectors(1, 4, 9, 8)
    for direction, causal in (("symmetric", False), ("causal", True)):
        scheme, positions = make(direction=direction), torch.arange(9)
        here, there = (
            attention_logits(
                q,
                k,
                scheme=scheme,
                positions=positions + shift,
                mask=Mask(causal=causal),
            )
            for shift in (0, 100_000)
        )
        close(here, there, 1e-10)


def test_a_constant_per_query_does_not_change_attention() -> None:
    # The released code adds slope * key position, which differs by such a constant.
    q, k, v = vectors(1, 4, 7, 8)
    got = attention(q, k, v, scheme=make(), positions=torch.arange(7))
    slope = torch.tensor(slopes(4), dtype=torch.float64)[:, None, None]
    logits = q @ k.mT / math.sqrt(8) + slope * torch.arange(7)
    future = torch.arange(7)[:, None] < torch.arange(7)
    expected = logits.masked_fill(future, -math.inf).softmax(-1) @ v
    close(got, expected)


def test_causal_is_symmetric_under_a_causal_mask() -> None:
    q, k, v = vectors(1, 4, 9, 8)
    one, other = (
        attention(q, k, v, scheme=make(direction=name), positions=torch.arange(9))
        for name in ("symmetric", "causal")
    )
    assert torch.equal(one, other)


def test_direction_changes_the_future() -> None:
    offsets = torch.tensor([-2, 0, 3])
    symmetric = make().offset_bias(offsets)
    causal = make(direction="causal").offset_bias(offsets)
    assert symmetric is not None
    assert causal is not None
    assert torch.equal(symmetric[:, :2], causal[:, :2])
    assert torch.equal(symmetric[:, 2], -causal[:, 2])


def test_causal_refuses_to_see_the_future() -> None:
    check_causal_mask_is_needed(make(direction="causal"), 8)


def test_bfloat16_keeps_close_positions_apart() -> None:
    positions = [15962, 15966, 15968]  # the first two collide in bfloat16
    zero = torch.zeros(1, 4, 3, 8, dtype=torch.bfloat16)
    ids = torch.tensor(positions)
    logits = attention_logits(
        zero, zero, scheme=make(), positions=ids, mask=Mask(causal=False)
    )
    expected = slow_bias(positions, positions, 4)
    assert torch.equal(logits[0].double(), expected)
    assert (logits[0, :, 0, 1] < 0).all()
    # Through attention, values that name the key: the weights come out rounded once.
    v = torch.eye(3, 8, dtype=torch.bfloat16).expand(1, 4, 3, 8)
    out = attention(
        zero, zero, v, scheme=make(), positions=ids, mask=Mask(causal=False)
    )
    weights = expected.softmax(dim=-1)
    error = (out[0, :, :, :3].double() - weights).abs()
    # A kernel may round the weight, then the output, to bfloat16: 2 * 2**-8.
    assert (error <= 2 * 2.0**-8 * weights + 2.0**-20).all()


def test_unknown_direction() -> None:
    with pytest.raises(
        ConfigError,
        match="alibi: direction must be symmetric or causal, got 'backward'",
    ):
        make(direction="backward")
