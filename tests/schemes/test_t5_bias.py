"""T5's buckets against exact fractions, and the bias against reading the table."""

from fractions import Fraction

import pytest
import torch
from schemes.reference import BiasTests, Case, Inputs
from schemes.tools import build

from posenc_compare.schemes.t5_bias import T5Bias, bucket_edges

CAUSAL = [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
HALF = [*range(8), 8, 12, 16, 23, 32, 46, 64, 91]


def make(heads: int = 2, **options: int | bool) -> T5Bias:
    return build(T5Bias, options, model_dim=8 * heads, heads=heads)


def slow_bucket(distance: int, buckets: int, max_distance: int) -> int:
    """e + floor(ln(n / e) / ln(max / e) * (buckets - e)), decided by fractions."""
    exact = buckets // 2
    if distance < exact:
        return distance
    rest = buckets - exact
    reached = Fraction(distance, exact) ** rest
    step = 0
    while step + 1 < rest and Fraction(max_distance, exact) ** (step + 1) <= reached:
        step += 1
    return exact + step


def slow_signed(offset: int, buckets: int, max_distance: int, both: bool) -> int:
    if not both:
        return slow_bucket(max(-offset, 0), buckets, max_distance)
    side = buckets // 2
    bucket = slow_bucket(abs(offset), side, max_distance)
    return bucket + side if offset > 0 else bucket


def test_edges_of_the_published_settings() -> None:
    assert bucket_edges(32, 128) == CAUSAL
    assert bucket_edges(16, 128) == HALF


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(
    ("buckets", "max_distance"),
    [(32, 128), (64, 512), (32, 256), (16, 20), (8, 100), (4, 3), (16, 9)],
)
def test_buckets_equal_exact_fractions(
    buckets: int, max_distance: int, both: bool
) -> None:
    scheme = make(buckets=buckets, max_distance=max_distance, bidirectional=both)
    offsets = list(range(-4 * max_distance, 4 * max_distance + 1))
    got = scheme.buckets(torch.tensor(offsets)).tolist()
    expected = [slow_signed(n, buckets, max_distance, both) for n in offsets]
    assert got == expected


def test_an_odd_number_of_causal_buckets() -> None:
    scheme = make(buckets=7, max_distance=50)
    got = scheme.buckets(-torch.arange(201)).tolist()
    assert got == [slow_bucket(n, 7, 50) for n in range(201)]


class TestT5Bias(BiasTests):
    name = "t5_bias"
    # A quarter is 16 and 32; no fewer positions than the 32 buckets.
    published = {"max_distance": (128, 512, (32, 32, 128))}
    sizes = {"heads": 3, "head_dim": 8}
    scale = 1.0  # products are not divided
    cases = [
        {"buckets": 8, "max_distance": 12, "bidirectional": both}
        for both in (False, True)
    ]
    half = Case({"bidirectional": True})
    changes = [{"buckets": 16}, {"max_distance": 64}, {"bidirectional": True}]
    errors = [
        *(
            (
                {"buckets": buckets, "bidirectional": both},
                f"buckets must be at least 2 a side and split evenly, got {buckets}",
            )
            for buckets, both in (
                *((1, False), (0, False), (-4, False), (3, True), (7, True)),
            )
        ),
        *(
            (
                {"max_distance": most, "bidirectional": both},
                f"max_distance must exceed the {exact} exact buckets, got {most}",
            )
            for most, both, exact in ((16, False, 16), (8, True, 8), (-1, False, 16))
        ),
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        numbers = (
            t.option(name) for name in ("buckets", "max_distance", "bidirectional")
        )
        return t.scheme.table[slow_signed(key - query, *numbers), h].item()


@pytest.mark.parametrize(("both", "exact"), [(False, 16), (True, 8)])
def test_the_least_max_distance(both: bool, exact: int) -> None:
    edges = make(max_distance=exact + 1, bidirectional=both).edges
    assert edges[exact:] == [exact] + [exact + 1] * (exact - 1)


def test_products_are_not_scaled() -> None:
    assert make().scale(64) == 1.0
    assert make().query_init_gain(64) == 1 / 8  # the projection starts smaller instead


def test_float32_buckets_are_those_of_float64() -> None:
    offsets = torch.arange(-600, 1)
    assert torch.equal(make().float().buckets(offsets), make().buckets(offsets))
