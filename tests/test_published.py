"""Figures that papers have published come out the same here."""

import math
from typing import Any

import pytest
import torch

from posenc_compare.schemes import create
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.slopes import slopes

CPU = torch.device("cpu")


def smallest_base(context: int, head_dim: int = 128) -> float:
    """Return the smallest base of RoPE, to two digits, for a context length.

    For this base the sum over pairs of `cos(m theta_i)` is not negative for any
    distance `m` from 0 to `context`.
    """
    distances = torch.arange(context + 1, dtype=torch.float64)

    def holds(base: float) -> bool:
        inv_freq = inverse_frequencies(head_dim // 2, base, CPU)
        return bool((torch.cos(distances[:, None] * inv_freq).sum(1) >= 0).all())

    candidates = (d * 10.0**e for e in range(2, 7) for d in range(10, 100))
    return next(base for base in candidates if holds(base))


# Men et al. 2024, arXiv:2405.14591, whose 1k is 1000; the last one is ours.
@pytest.mark.parametrize(
    ("context", "base"), [(1000, 4.3e3), (4000, 2.7e4), (8000, 8.4e4), (4096, 2.9e4)]
)
def test_smallest_base_of_rope(context: int, base: float) -> None:
    assert smallest_base(context) == base


# Raffel et al. 2020, arXiv:1910.10683; edges of the released code.
@pytest.mark.parametrize(
    ("bidirectional", "edges"),
    [
        (False, [*range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99]),
        (True, [*range(9), 12, 16, 23, 32, 46, 64]),
    ],
)
def test_first_distances_of_the_buckets_of_t5(
    bidirectional: bool, edges: list[int]
) -> None:
    options = {"bidirectional": bidirectional}
    sizes = {"heads": 1, "head_dim": 8}
    scheme: Any = create("t5_bias", options=options, lengths="published", **sizes)
    with torch.no_grad():
        scheme.table.copy_(torch.arange(len(scheme.table))[:, None])
        numbers = scheme.offset_bias(-torch.arange(512))[0].tolist()
    starts = [n for n in range(512) if n == 0 or numbers[n] != numbers[n - 1]]
    assert starts == [*edges, 91 if bidirectional else 113]


def test_slopes_of_alibi() -> None:
    """Press et al. 2022, arXiv:2108.12409, section 3 and released code."""
    assert slopes(8) == [2.0**-i for i in range(1, 9)]
    assert all(slopes(heads) == by_rule(heads) for heads in range(1, 65))


def by_rule(heads: int) -> list[float]:
    """Return the slopes of the rule in the paper, also for other head counts."""
    if math.log2(heads).is_integer():
        return [2.0 ** (-8 * (head + 1) / heads) for head in range(heads)]
    below = 2 ** math.floor(math.log2(heads))
    return by_rule(below) + by_rule(2 * below)[0::2][: heads - below]


@pytest.mark.parametrize("factor", [4.0, 16.0, 32.0])
def test_temperature_of_yarn(factor: float) -> None:
    """Peng et al. 2023, arXiv:2309.00071, section 3.4: sqrt(1/t)."""
    options = {"scaling": "yarn", "factor": factor}
    rope: Any = create("rope", options=options, heads=1, head_dim=64)
    assert rope.scaling.attention_factor == pytest.approx(0.1 * math.log(factor) + 1)
