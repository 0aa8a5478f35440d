"""T5's buckets against exact fractions, and the bias against reading the table."""

from fractions import Fraction

import pytest
import torch
from schemes.tools import build, close, normal, pair_by_pair
from torch import Tensor

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
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


def test_buckets_rise_with_the_distance_and_stay_at_the_last() -> None:
    buckets = make().buckets(-torch.arange(1000))
    assert (buckets.diff() >= 0).all()
    assert (buckets[128:] == 31).all()
    assert buckets[112].item() == 30


def test_future_shares_bucket_zero_or_has_the_upper_half() -> None:
    future = torch.arange(1, 200)
    assert (make().buckets(future) == 0).all()
    both = make(bidirectional=True)
    assert torch.equal(both.buckets(future), both.buckets(-future) + 16)
    assert both.buckets(torch.tensor([0])).item() == 0


@pytest.mark.parametrize("both", [False, True])
def test_equals_the_slow_reference(both: bool) -> None:
    scheme = make(heads=3, buckets=8, max_distance=12, bidirectional=both)
    q, k = normal(2, 2, 3, 6, 8, seed=1)
    positions = [4, 5, 7, 40, 3, 5]
    got = attention_logits(
        q, k, scheme=scheme, positions=torch.tensor(positions), mask=Mask(causal=False)
    )

    def bias(_: int, h: int, i: int, j: int) -> float:
        row = slow_signed(positions[j] - positions[i], 8, 12, both)
        return scheme.table[row, h].item()

    close(got, q @ k.mT + pair_by_pair(q, bias))  # products are not divided


def test_products_are_not_scaled() -> None:
    assert make().scale(64) == 1.0
    assert make().query_init_gain(64) == 1 / 8  # the projection starts smaller instead


def test_initial_spread_shrinks_with_the_width() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        table = create("t5_bias", model_dim=400, heads=100).get_parameter("table")
    assert table.shape == (32, 100)
    # 3200 draws: the spread is known to 1 / sqrt(6400) = 1.25 %.
    assert table.std().item() == pytest.approx(1 / 20, rel=0.06)


def test_gradient_counts_the_pairs_of_each_bucket() -> None:
    scheme = make(buckets=4, max_distance=6)
    bias = scheme.offset_bias(torch.arange(-5, 3))  # distances 5 4 3 2 1 0 0 0
    bias.sum().backward()
    assert scheme.table.grad is not None
    # edges: 0, 1, 2, then (n / 2) ** 2 >= 3, n = 4
    assert bucket_edges(4, 6) == [0, 1, 2, 4]
    assert scheme.table.grad[:, 0].tolist() == [3, 1, 2, 2]


def test_logits_do_not_change_under_a_shift() -> None:
    q, k = normal(2, 1, 2, 9, 8, seed=1)
    scheme = make(buckets=8, max_distance=12)
    here, there = (
        attention_logits(q, k, scheme=scheme, positions=torch.arange(9) + shift)
        for shift in (0, 100_000)
    )
    close(here, there, 1e-10)


@pytest.mark.parametrize(
    "options", [{"buckets": 16}, {"max_distance": 64}, {"bidirectional": True}]
)
def test_each_option_changes_the_output(options: dict[str, int | bool]) -> None:
    offsets = torch.arange(-150, 151)

    def bias(**options: int | bool) -> Tensor:
        scheme = make(**options)
        with torch.no_grad():  # the same rule fills every table
            rows, heads = scheme.table.shape
            scheme.table.copy_(torch.arange(rows)[:, None].expand(rows, heads))
        return scheme.offset_bias(offsets)

    assert not torch.equal(bias(), bias(**options))


def test_bfloat16_keeps_close_positions_apart() -> None:
    positions = [15962, 15966, 15968]  # the first two collide in bfloat16
    zero = torch.zeros(1, 2, 3, 8, dtype=torch.bfloat16)
    scheme = make(bidirectional=True)
    logits = attention_logits(
        zero,
        zero,
        scheme=scheme,
        positions=torch.tensor(positions),
        mask=Mask(causal=False),
    )
    for i in range(3):
        for j in range(3):
            row = slow_signed(positions[j] - positions[i], 32, 128, True)
            expected = scheme.table[row].float()  # the logits of bfloat16 are float32
            assert torch.equal(logits[0, :, i, j], expected)
    assert logits[0, 0, 0].unique().numel() == 3


def test_float32_buckets_are_those_of_float64() -> None:
    offsets = torch.arange(-600, 1)
    assert torch.equal(make().float().buckets(offsets), make().buckets(offsets))


@pytest.mark.parametrize(
    ("buckets", "both"), [(1, False), (0, False), (-4, False), (3, True), (7, True)]
)
def test_buckets_out_of_range(buckets: int, both: bool) -> None:
    with pytest.raises(
        ConfigError,
        match=f"t5_bias: buckets must be at least 2 a side and split evenly, "
        f"got {buckets}",
    ):
        make(buckets=buckets, bidirectional=both)


@pytest.mark.parametrize(
    ("max_distance", "both", "exact"), [(16, False, 16), (8, True, 8), (-1, False, 16)]
)
def test_max_distance_out_of_range(max_distance: int, both: bool, exact: int) -> None:
    with pytest.raises(
        ConfigError,
        match=f"t5_bias: max_distance must exceed the {exact} exact buckets, "
        f"got {max_distance}",
    ):
        make(max_distance=max_distance, bidirectional=both)
    edges = make(max_distance=exact + 1, bidirectional=both).edges
    assert edges[exact:] == [exact] + [exact + 1] * (exact - 1)
