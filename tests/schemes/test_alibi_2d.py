"""Two-axis ALiBi against the distance in the plane, one pair at a time."""

import math

import pytest
import torch
from schemes.reference import BiasTests, Case, Inputs
from schemes.tools import close, normal

from posenc_compare.attention import Mask, attention
from posenc_compare.schemes import Scheme, create

METRICS = ["l2", "l1", "linf"]


def make(heads: int = 3, **options: str) -> Scheme:
    return create("alibi_2d", options=options, model_dim=8 * heads, heads=heads)


def slow_slopes(heads: int) -> list[float]:
    """Return the recursive rule of the authors of ALiBi."""
    if (heads & (heads - 1)) == 0:
        return [2 ** (-8 / heads * (h + 1)) for h in range(heads)]
    whole = 2 ** int(math.log2(heads))
    return slow_slopes(whole) + slow_slopes(2 * whole)[0::2][: heads - whole]


def slow(metric: str, one: list[int], other: list[int]) -> float:
    apart = [abs(a - b) for a, b in zip(one, other, strict=True)]
    if metric == "l2":
        return math.sqrt(apart[0] ** 2 + apart[1] ** 2)
    return float(sum(apart) if metric == "l1" else max(apart))


PLACES = [[0, 0], [0, 5], [5, 0], [3, 14], [200, 1], [-2, 7]]


class TestAlibi2d(BiasTests):
    name = "alibi_2d"
    places = [PLACES, PLACES[::-1]]
    cases = [
        Case({"metric": metric}, heads=heads)
        for metric in METRICS
        for heads in (1, 3, 4)
    ]
    changes = [{"metric": "l1"}, {"metric": "linf"}]
    errors = [({"metric": "l3"}, "metric must be l2 or l1 or linf, got 'l3'")]

    def bias(self, t: Inputs, h: int, query: list[int], key: list[int]) -> float:
        return -slow_slopes(t.q.shape[1])[h] * slow(t.option("metric"), query, key)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("metric", METRICS)
def test_on_one_row_it_is_alibi(metric: str, axis: int) -> None:
    x, line = normal(1, 3, 9, 8), torch.arange(9) * 3
    places = torch.zeros(9, 2, dtype=torch.int64)
    places[:, axis] = line
    places[:, 1 - axis] = 4
    got = attention(
        x, x, x, scheme=make(metric=metric), positions=places, mask=Mask(causal=False)
    )
    alibi = create("alibi", model_dim=24, heads=3)
    expected = attention(x, x, x, scheme=alibi, positions=line, mask=Mask(causal=False))
    close(got, expected, 1e-13)
