"""DeBERTa's products against the paper's sums, and its buckets against fractions."""

import math
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import torch
from schemes.reference import Case, Inputs, LogitTests
from schemes.tools import (
    build,
    close,
    dot,
    drawn,
    pair_by_pair,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import attention_logits
from posenc_compare.schemes import create
from posenc_compare.schemes.deberta import Deberta, bucket_edges

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 7, 10
SHAPE = (BATCH, HEADS, LENGTH, WIDTH)
PLACES = [0, 1, 3, 9, 4, 5, 30]


def make(length: int = 8, **options: Any) -> Deberta:
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH, "length": length}
    return drawn(build(Deberta, options, **sizes))


def slow_bucket(distance: int, buckets: int, reach: int) -> int:
    """m + ceil(ln(n / m) / ln((reach - 1) / m) * (m - 1)), decided by fractions."""
    middle, n = buckets // 2, abs(distance)
    if n <= middle:
        return distance
    reached, step = Fraction(n, middle) ** (middle - 1), 0
    while Fraction(reach - 1, middle) ** step < reached:
        step += 1
    return (middle + step) * (1 if distance > 0 else -1)


def slow_row(distance: int, span: int) -> int:
    """0 up to -span, 2 span - 1 from span on, distance + span between."""
    if distance <= -span:
        return 0
    return 2 * span - 1 if distance >= span else distance + span


def project(weight: Tensor, head: int, vector: list[float]) -> list[float]:
    return [dot(row, vector) for row in weight.view(HEADS, WIDTH, DIM)[head].tolist()]


class TestDeberta(LogitTests):
    name = "deberta"
    published = {"reach": (512, 512, (64, 128, 512))}
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH, "length": 8}
    places = [PLACES, PLACES[::-1]]
    half, half_atol = Case(length=16), 1e-4
    cases = [
        {"reach": reach, "buckets": buckets, "p2c_index": index}
        for index in ("code", "paper")
        for reach, buckets in ((2, 0), (5, 0), (40, 0), (20, 8))
    ]
    changes = [{"reach": 4}, {"buckets": 4}, {"p2c_index": "paper"}]
    errors = [
        ({"reach": -1}, "reach must be 0 or more, got -1"),
        *(
            (
                {"reach": 10, "buckets": buckets},
                f"buckets must be even, at least 4 and less than .*, got {buckets}",
            )
            for buckets in (-2, 2, 7, 18, 20)
        ),
    ]

    def logits(self, t: Inputs) -> Tensor:
        """Content to content, content to position, position to content."""
        scheme, places = t.scheme, t.positions.tolist()
        reach, buckets = t.option("reach"), t.option("buckets")
        span, table = buckets or reach, scheme.table.tolist()

        @cache
        def projected(layer: Tensor, head: int, distance: int) -> list[float]:
            step = slow_bucket(distance, buckets, reach) if buckets else distance
            return project(layer, head, table[slow_row(step, span)])

        def logit(b: int, h: int, i: int, j: int) -> float:
            distance = places[b][i] - places[b][j]
            turned = distance if t.option("p2c_index") == "code" else -distance
            key_row = projected(scheme.to_keys.weight, h, distance)
            query_row = projected(scheme.to_queries.weight, h, turned)
            query, key = t.q[b, h, i].tolist(), t.k[b, h, j].tolist()
            total = dot(query, key) + dot(query, key_row) + dot(key, query_row)
            return total / math.sqrt(3 * WIDTH)

        return pair_by_pair(t.q, logit)


def test_reach_is_the_length_unless_given() -> None:
    q, k, _ = vectors(*SHAPE)
    positions = torch.tensor(PLACES)
    default = attention_logits(q, k, scheme=make(length=5), positions=positions)
    given = attention_logits(q, k, scheme=make(reach=5), positions=positions)
    assert torch.equal(default, given)
    assert make(length=5).table.shape == (10, DIM)
    assert make(buckets=4).table.shape == (8, DIM)


@pytest.mark.parametrize(
    ("buckets", "reach"), [(4, 4), (8, 20), (16, 10), (32, 128), (256, 512), (10, 100)]
)
def test_buckets_equal_exact_fractions(buckets: int, reach: int) -> None:
    scheme = make(reach=reach, buckets=buckets)
    distances = range(-2 * reach, 2 * reach + 1, 1 if reach < 200 else 7)
    got = scheme.rows(torch.tensor(distances)).tolist()
    expected = [slow_row(slow_bucket(n, buckets, reach), buckets) for n in distances]
    assert got == expected


def test_buckets_equal_the_published_rule_away_from_ties() -> None:
    # da_utils.py takes logarithms in floating point, where a tie may fall either way.
    edges = bucket_edges(256, 512)
    assert len(edges) == 256
    assert edges[:130] == [*range(129), 129]
    assert edges[-1] == 511
    for n in range(129, 511):
        exact = math.log(n / 128) / math.log(511 / 128) * 127
        assert abs(exact - round(exact)) > 1e-9
        bucket = sum(edge < n for edge in edges)
        assert bucket == 128 + math.ceil(exact)


def test_an_empty_table_is_no_encoding_on_a_smaller_scale() -> None:
    q, k, _ = vectors(*SHAPE)
    scheme, positions = make(), torch.tensor(PLACES)
    scheme.table.zero_()
    got = attention_logits(q, k, scheme=scheme, positions=positions)
    nope = attention_logits(q, k, scheme=create("nope"), positions=positions)
    close(got * math.sqrt(3), nope, 1e-14)
