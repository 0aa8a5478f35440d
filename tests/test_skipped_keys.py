"""Keys that a falling bias takes all weight from are left out, and no bit changes."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.attention import Mask, attention
from posenc_compare.attention.backends import strided
from posenc_compare.schemes import Scheme, create

HEADS, WIDTH, KEYS = 4, 16, 1400
SLOPES = [2.0 ** (-8 * (head + 1) / HEADS) for head in range(HEADS)]


def normal(seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, HEADS, KEYS, WIDTH, generator=generator).to(dtype)


def alibi() -> Scheme:
    return create("alibi", heads=HEADS, head_dim=WIDTH, length=KEYS)


def attend(
    q: Tensor, k: Tensor, v: Tensor, window: int | None = None, path: str = "strided"
) -> Tensor:
    ids = torch.arange(KEYS)
    with torch.no_grad():
        return attention(
            q,
            k,
            v,
            scheme=alibi(),
            positions=ids[KEYS - q.shape[2] :],
            key_positions=ids,
            mask=Mask(window=window),
            path=path,  # pyright: ignore[reportArgumentType]
        )


@pytest.mark.parametrize(
    ("queries", "window", "dtype"),
    [
        (KEYS, None, torch.float32),
        (KEYS, None, torch.bfloat16),
        (KEYS, 200, torch.float32),
        (KEYS, 200, torch.float64),
        (600, None, torch.float32),
    ],
)
def test_no_bit_changes(
    queries: int,
    window: int | None,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k, v = (normal(seed, dtype) for seed in range(3))
    q, seen, kernel = q[:, :, KEYS - queries :], [], F.scaled_dot_product_attention

    def noted(q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        seen.append(q.shape[:3].numel() * k.shape[2])
        return kernel(q, k, v, **given)

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    got, some = attend(q, k, v, window), sum(seen)
    monkeypatch.setattr(strided, "_may_skip", lambda _: False)
    assert torch.equal(got, attend(q, k, v, window))
    assert some < sum(seen) - some, "fewer keys"


def test_the_reach_is_that_of_the_slope() -> None:
    zeros, offsets = torch.zeros(1, HEADS, KEYS, WIDTH), torch.arange(1 - KEYS, 1)
    values = torch.tensor(SLOPES)[:, None] * offsets
    got = strided.reach(zeros, zeros, zeros, values, scale=0.25)
    least = 1 - math.log(torch.finfo(torch.float32).tiny * 2.0**-23)
    expected = [min(KEYS, 1 + math.floor(least / slope)) for slope in SLOPES]
    assert expected[0] < 600 < KEYS == expected[-1]
    assert got == expected


@pytest.mark.parametrize("scale", [0.25, 0.5])
def test_a_key_far_away_counts_if_its_product_may_outweigh_the_bias(
    scale: float,
) -> None:
    slope, away = SLOPES[0], 1000
    q, k = torch.zeros(2, 1, HEADS, KEYS, WIDTH)
    q[:, 0, -1, 0] = k[:, 0, -1 - away, 0] = math.sqrt(slope * away / scale)
    values = torch.tensor(SLOPES)[:, None] * torch.arange(1 - KEYS, 1)
    got = strided.reach(q, k, q, values, scale)
    assert got[0] > away, "both have the same logit, so half of the weight is far away"


def test_what_is_far_away_and_large_is_seen() -> None:
    q, k, v = normal(0), normal(1), normal(2)
    q[:, 0, -1], k[:, 0, 300] = 0, 0
    q[:, 0, -1, 0] = k[:, 0, 300, 0] = 50.0  # 625 against a bias of -275
    expected = attend(q, k, v, path="plain")
    torch.testing.assert_close(expected[:, 0, -1], v[:, 0, 300], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(attend(q, k, v), expected, rtol=1e-4, atol=1e-4)


def test_a_batch_of_none_comes_back() -> None:
    none = normal(0)[:0]
    assert attend(none, none, none).shape == none.shape


def test_float64_with_denormals_flushed() -> None:
    q, k, v = (normal(seed, torch.float64) for seed in range(3))
    expected = attend(q, k, v)
    try:
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor cannot flush denormals")
        assert torch.equal(attend(q, k, v), expected)
    finally:
        torch.set_flush_denormal(False)


def test_values_that_are_no_numbers_are_not_left_out() -> None:
    q, k, v = (normal(seed) for seed in range(3))
    v[0, 0, 3, 0] = math.inf
    assert attend(q, k, v)[0, 0, -1, 0].isnan()
