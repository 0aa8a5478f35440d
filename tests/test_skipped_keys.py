"""Keys that a falling bias takes all weight from are left out, and no bit changes."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from schemes.tools import normal
from torch import Tensor

from posenc_compare.attention import Mask, Path, attention
from posenc_compare.attention.backends import strided
from posenc_compare.schemes import Scheme, create

HEADS, WIDTH, KEYS = 4, 16, 1400


def drawn(seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return normal(2, HEADS, KEYS, WIDTH, seed=seed).to(dtype)


def alibi() -> Scheme:
    return create("alibi", heads=HEADS, head_dim=WIDTH, length=KEYS)


def attend(
    q: Tensor, k: Tensor, v: Tensor, window: int | None = None, path: Path = "strided"
) -> Tensor:
    ids = torch.arange(KEYS)
    given: dict[str, Any] = {"scheme": alibi(), "mask": Mask(window=window)}
    given |= {"positions": ids[KEYS - q.shape[2] :], "key_positions": ids}
    with torch.no_grad():
        return attention(q, k, v, **given, path=path)


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
    q, k, v = (drawn(seed, dtype) for seed in range(3))
    q, seen, kernel = q[:, :, KEYS - queries :], [], F.scaled_dot_product_attention

    def noted(q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Tensor:
        seen.append(q.shape[:3].numel() * k.shape[2])
        return kernel(q, k, v, **given)

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    got, some = attend(q, k, v, window), sum(seen)
    monkeypatch.setattr(strided, "_may_skip", lambda _: False)
    assert torch.equal(got, attend(q, k, v, window))
    assert some < sum(seen) - some, "fewer keys"


@pytest.mark.parametrize("size", [50.0, math.sqrt(1099)])
def test_what_is_far_away_and_large_is_seen(size: float) -> None:
    """Its product is 625, or 275 as the bias, which leaves a part of the weight."""
    q, k, v = drawn(0), drawn(1), drawn(2)
    q[:, 0, -1], k[:, 0, 300] = 0, 0
    q[:, 0, -1, 0] = k[:, 0, 300, 0] = size
    expected = attend(q, k, v, path="plain")
    if size == 50:
        torch.testing.assert_close(
            expected[:, 0, -1], v[:, 0, 300], rtol=1e-5, atol=1e-5
        )
    torch.testing.assert_close(attend(q, k, v), expected, rtol=1e-4, atol=1e-4)


def test_float64_with_denormals_flushed() -> None:
    q, k, v = (drawn(seed, torch.float64) for seed in range(3))
    expected = attend(q, k, v)
    try:
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor cannot flush denormals")
        assert torch.equal(attend(q, k, v), expected)
    finally:
        torch.set_flush_denormal(False)


def test_values_that_are_no_numbers_are_not_left_out() -> None:
    q, k, v = (drawn(seed) for seed in range(3))
    v[0, 0, 3, 0] = math.inf
    assert attend(q, k, v)[0, 0, -1, 0].isnan()
