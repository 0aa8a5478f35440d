"""ALiBi against the recursive slope rule of the paper's released code."""

import math
from fractions import Fraction

import pytest
import torch
from schemes.reference import BiasTests, Case, Inputs
from schemes.tools import (
    CLOSE_POSITIONS,
    close,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention
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


class TestAlibi(BiasTests):
    name = "alibi"
    causal = None
    cases = [
        Case({"direction": direction}, heads=heads)
        for direction in ("symmetric", "causal")
        for heads in (1, 3, 4)
    ]
    changes = [{"direction": "causal"}]
    errors = [
        (
            {"direction": "backward"},
            "direction must be symmetric or causal, got 'backward'",
        ),
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        exponent = recursive_exponents(t.q.shape[1])[h]
        ahead = query - key
        away = abs(ahead) if t.option("direction") == "symmetric" else ahead
        return -math.pow(0.5, exponent) * away

    def output(self, scheme: Scheme) -> Tensor:
        bias = scheme.offset_bias(torch.arange(-9, 10))
        assert bias is not None
        return bias


def test_bfloat16_weights_are_rounded_once() -> None:
    positions, exponents = CLOSE_POSITIONS, recursive_exponents(4)
    zero = torch.zeros(1, 4, 3, 8, dtype=torch.bfloat16)
    slope = torch.tensor([0.5**exponent for exponent in exponents]).double()
    bias = -slope[:, None, None] * (positions[:, None] - positions).abs()
    # Values that name the key.
    v = torch.eye(3, 8, dtype=torch.bfloat16).expand(1, 4, 3, 8)
    out = attention(
        zero, zero, v, scheme=make(), positions=positions, mask=Mask(causal=False)
    )
    weights = bias.softmax(dim=-1)
    error = (out[0, :, :, :3].double() - weights).abs()
    # A kernel may round the weight, then the output, to bfloat16: 2 * 2**-8.
    assert (error <= 2 * 2.0**-8 * weights + 2.0**-20).all()


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
