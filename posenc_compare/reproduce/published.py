"""Exact figures that papers have published, computed again with the schemes here.

Each figure is cheap, needs no training, and is compared with the number in the paper.
If the paper only draws a figure, it is computed and shown without a verdict.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from posenc_compare.schemes import create
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.slopes import slopes

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Figure:
    """A published figure and ours.

    Attributes:
        what: name of the figure.
        source: the paper.
        published: the number in the paper; None if the paper only draws it.
        ours: the number computed here.
        note: a reason why the two could differ.
    """

    what: str
    source: str
    published: Any
    ours: Any
    note: str = ""

    @property
    def verdict(self) -> str:
        """Return whether the figures agree."""
        if self.published is None:
            return "drawn only"
        return "same" if self.published == self.ours else "differs"


def figures() -> Iterator[Figure]:
    """Compute every figure."""
    for make in (_base_bounds, _decay, _buckets, _slopes, _temperatures):
        yield from make()


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


def _base_bounds() -> Iterator[Figure]:
    source = "Men et al. 2024, arXiv:2405.14591"
    for context, published in ((1000, 4.3e3), (4000, 2.7e4), (8000, 8.4e4)):
        yield Figure(
            f"smallest base of RoPE for a context of {context}, head_dim 128",
            source,
            published,
            smallest_base(context),
            "1k is 1000 here; 4096 needs 2.9e4, as 2.7e4 fails beyond 4000"
            if context == 4000
            else "",
        )


def _decay() -> Iterator[Figure]:
    """Compute RoFormer's bound of a logit: the mean absolute partial sum of phasors."""
    inv_freq = inverse_frequencies(64, 10_000.0, CPU)
    bound = []
    for distance in (0, 10, 50, 100, 250):
        phasors = torch.polar(torch.ones_like(inv_freq), distance * inv_freq)
        bound.append(round(phasors.cumsum(0).abs().mean().item(), 2))
    yield Figure(
        "relative upper bound of a logit at distances 0, 10, 50, 100, 250",
        "Su et al. 2021, arXiv:2104.09864, section 3.4.3",
        None,
        bound,
        "falls with the distance, not evenly; the paper draws it",
    )


def _buckets() -> Iterator[Figure]:
    source = "Raffel et al. 2020, arXiv:1910.10683; edges of the released code"
    causal = [*range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    both = [*range(9), 12, 16, 23, 32, 46, 64, 91]
    for bidirectional, published in ((False, causal), (True, both)):
        options = {"bidirectional": bidirectional}
        scheme: Any = create(
            "t5_bias", options=options, lengths="published", heads=1, head_dim=8
        )
        with torch.no_grad():
            scheme.table.copy_(torch.arange(len(scheme.table))[:, None])
            numbers = scheme.offset_bias(-torch.arange(512))[0].tolist()
        starts = [n for n in range(512) if n == 0 or numbers[n] != numbers[n - 1]]
        name = "bidirectional" if bidirectional else "causal"
        yield Figure(f"first distance of each {name} bucket", source, published, starts)


def _slopes() -> Iterator[Figure]:
    source = "Press et al. 2022, arXiv:2108.12409, section 3 and released code"
    yield Figure("slopes of 8 heads", source, [2.0**-i for i in range(1, 9)], slopes(8))
    same = [heads for heads in range(1, 65) if slopes(heads) == _rule(heads)]
    yield Figure(
        "head counts from 1 to 64 whose slopes follow the rule", source, 64, len(same)
    )


def _rule(heads: int) -> list[float]:
    """Return the slopes of the rule in the paper, also for other head counts."""
    if math.log2(heads).is_integer():
        return [2.0 ** (-8 * (head + 1) / heads) for head in range(heads)]
    below = 2 ** math.floor(math.log2(heads))
    return _rule(below) + _rule(2 * below)[0::2][: heads - below]


def _temperatures() -> Iterator[Figure]:
    source = "Peng et al. 2023, arXiv:2309.00071, section 3.4"
    for factor in (4.0, 16.0, 32.0):
        options = {"scaling": "yarn", "factor": factor}
        rope: Any = create("rope", options=options, heads=1, head_dim=64)
        yield Figure(
            f"YaRN's sqrt(1/t) at factor {factor:g}",
            source,
            round(0.1 * math.log(factor) + 1, 6),
            round(rope.scaling.attention_factor, 6),
        )
