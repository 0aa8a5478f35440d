"""Two-axis ALiBi against the distance in the plane, one pair at a time."""

import math

import pytest
import torch
from schemes.tools import close, content_plus, decoded, grid, normal, on_paths, vectors

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError, ShapeError
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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 3, 4])
@pytest.mark.parametrize("metric", METRICS)
def test_equals_the_slow_reference(metric: str, heads: int, causal: bool) -> None:
    q, k, _ = vectors(2, heads, 6, 8)
    places = [[0, 0], [0, 5], [5, 0], [3, 14], [200, 1], [-2, 7]]
    rows, slopes = [places, places[::-1]], slow_slopes(heads)
    scheme = make(heads, metric=metric)
    got = attention_logits(
        q, k, scheme=scheme, positions=torch.tensor(rows), mask=Mask(causal=causal)
    )

    def bias(b: int, h: int, i: int, j: int) -> float:
        return -slopes[h] * slow(metric, rows[b][i], rows[b][j])

    close(got, content_plus(q, k, bias, causal))


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


def test_metrics_are_ordered_and_differ() -> None:
    zero = torch.zeros(1, 3, 12, 8, dtype=torch.float64)
    largest, middle, smallest = (
        -attention_logits(
            zero,
            zero,
            scheme=make(metric=metric),
            positions=grid(3, 4),
            mask=Mask(causal=False),
        )
        for metric in ("l1", "l2", "linf")
    )
    assert (largest >= middle).all()
    assert (middle >= smallest).all()
    assert (largest - middle).max() > 0.1
    assert (middle - smallest).max() > 0.1


def test_shift_and_exchange_of_axes_change_nothing() -> None:
    x, places = normal(1, 3, 12, 8), grid(3, 4)
    here = attention(x, x, x, scheme=make(), positions=places)
    shift = torch.tensor([7, 1000])
    for other in (places + shift, places.flip(-1), -places):
        there = attention(x, x, x, scheme=make(), positions=other)
        close(there, here, 1e-13)
    stretched = attention(x, x, x, scheme=make(), positions=places * 2)
    assert (stretched - here).abs().max() > 1e-3


@pytest.mark.parametrize("causal", [False, True])
def test_paths_agree(causal: bool) -> None:
    x = normal(2, 3, 12, 8)
    places = torch.stack([grid(3, 4), grid(4, 3)])
    first, *others = on_paths(
        x, x, x, scheme=make(), positions=places, mask=Mask(causal=causal)
    )
    for other in others:
        close(other, first)


@pytest.mark.parametrize("steps", [[11, 1], [4, 4, 4], [1] * 12], ids=str)
def test_cached_decoding_equals_the_full_pass(steps: list[int]) -> None:
    x, places, scheme = normal(2, 3, 12, 8), grid(3, 4), make()
    whole = attention(x, x, x, scheme=scheme, positions=places)
    close(decoded(x, x, x, steps, scheme=scheme, positions=places), whole)


def test_packed_images_equal_separate_ones() -> None:
    x, places = normal(2, 3, 10, 8), torch.cat([grid(2, 2), grid(2, 3)])
    segments = torch.tensor([0] * 4 + [1] * 6).expand(2, -1)
    packed = attention(
        x,
        x,
        x,
        scheme=make(),
        positions=places,
        mask=Mask(causal=False, segments=segments),
    )
    for part, one in ((slice(0, 4), grid(2, 2)), (slice(4, 10), grid(2, 3))):
        alone = x[:, :, part]
        got = attention(
            alone, alone, alone, scheme=make(), positions=one, mask=Mask(causal=False)
        )
        close(packed[:, :, part], got)


def test_bfloat16_keeps_close_positions_apart() -> None:
    places = torch.tensor([[0, 15_962], [0, 15_966], [3, 15_962]])
    zero = torch.zeros(1, 3, 3, 8, dtype=torch.bfloat16)
    logits = attention_logits(
        zero, zero, scheme=make(), positions=places, mask=Mask(causal=False)
    )
    slope = slow_slopes(3)[0]
    expected = torch.tensor([0, -4 * slope, -3 * slope])
    torch.testing.assert_close(logits[0, 0, 0], expected, rtol=1e-6, atol=0)


def test_positions_need_two_axes() -> None:
    x = normal(1, 3, 4, 8)
    with pytest.raises(ShapeError, match=r"positions must be \(4, 2\) or"):
        attention(x, x, x, scheme=make(), positions=torch.arange(4))


def test_unknown_metric() -> None:
    with pytest.raises(
        ConfigError, match="alibi_2d: metric must be l2 or l1 or linf, got 'l3'"
    ):
        make(metric="l3")
