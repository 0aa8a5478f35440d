"""Sandwich against loops over cosines."""

import math

import torch
from schemes.reference import BiasTests, Inputs
from schemes.tools import close
from torch import Tensor

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.schemes import Scheme, create


def make(heads: int = 3, **options: float | str) -> Scheme:
    return create("sandwich", options=options, model_dim=8 * heads, heads=heads)


def bias(scheme: Scheme, offsets: Tensor) -> Tensor:
    found = scheme.offset_bias(offsets)
    assert found is not None
    return found


def slow(
    head: int, heads: int, distance: int, d_bar: int, base: float, first: int
) -> float:
    """H / (8 h) times the sum of cos(distance / base ** (2 m / d_bar))."""
    indices = range(first, first + d_bar // 2)
    cosines = [math.cos(distance * base ** (-2 * m / d_bar)) for m in indices]
    return heads / (8 * head) * math.fsum(cosines)


class TestSandwich(BiasTests):
    name = "sandwich"
    sizes = {"heads": 3, "head_dim": 8}
    atol = 1e-11
    cases = [
        {"d_bar": d_bar, "base": base, "indices": indices}
        for d_bar, base in ((128, 1e4), (16, 1e4), (2, 100.0))
        for indices in ("from_zero", "from_one")
    ]
    changes = [{"d_bar": 64}, {"base": 9_000.0}, {"indices": "from_one"}]
    errors = [
        *(
            ({"d_bar": d_bar}, f"d_bar must be even and at least 2, got {d_bar}")
            for d_bar in (0, 7, -4)
        ),
        ({"base": -1.0}, r"base must be greater than 0, got -1\.0"),
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        first = int(t.option("indices") == "from_one")
        numbers = t.option("d_bar"), t.option("base"), first
        return slow(h + 1, 3, query - key, *numbers)


def test_is_the_gram_matrix_of_concatenated_sinusoids() -> None:
    options = {"layout": "concatenated"}
    sinusoids = create("sinusoidal", options=options, model_dim=128, heads=1)
    zero = torch.zeros(1, 50, 128, dtype=torch.float64)
    codes = sinusoids.embed(zero, torch.arange(50))[0]
    gram = codes @ codes.T
    zero = torch.zeros(1, 4, 50, 8, dtype=torch.float64)
    logits = attention_logits(
        zero, zero, scheme=make(4), positions=torch.arange(50), mask=Mask(causal=False)
    )
    for h in range(1, 5):
        close(logits[0, h - 1], gram * 4 / (8 * h), 1e-11)
