"""Clipped RoPE against complex numbers, one pair at a time."""

import cmath
import math
from typing import Any

import pytest
import torch
from schemes.tools import (
    check_rotation_keeps_close_positions_apart,
    close,
    normal,
    pair_by_pair,
    rotation_by_complex,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.shared.rotation import rotation_angles

PLACES = [0, 1, 2, 100, 500, -4]


def make(head_dim: int = 16, name: str = "rope_clipped", **options: Any) -> Scheme:
    return create(name, options=options, model_dim=2 * head_dim, heads=2)


def speeds(scheme: Scheme) -> Tensor:
    angles = rotation_angles(scheme, torch.tensor([1]))
    assert angles is not None
    return angles[0]


def slow_speeds(width: int, base: float, clipped: int, clip: str) -> list[float]:
    """A half cosine over the slowest pairs, as the square of a quarter of one."""
    found = []
    for m in range(width // 2):
        speed, place = base ** (-2 * m / width), m - (width // 2 - clipped)
        if place >= 0 and clip == "hard":
            speed = 0.0
        elif place > 0:
            speed *= math.cos(math.pi / 2 * place / (clipped - 1)) ** 2
        found.append(speed)
    return found


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("base", [10_000.0, 100.0])
@pytest.mark.parametrize("clip", ["soft", "hard"])
@pytest.mark.parametrize(
    ("head_dim", "share", "clipped"),
    [(16, 0.75, 6), (16, 0.7, 6), (16, 0.3, 2), (6, 1.0, 3), (2, 1.0, 1)],
)
def test_equals_the_slow_reference(
    head_dim: int, share: float, clipped: int, clip: str, base: float, layout: str
) -> None:
    q, k, _ = vectors(1, 2, 6, head_dim)
    scheme = make(head_dim, base=base, layout=layout, share=share, clip=clip)
    got = attention_logits(
        q, k, scheme=scheme, positions=torch.tensor(PLACES), mask=Mask(causal=False)
    )
    expected = slow_speeds(head_dim, base, clipped, clip)

    def logit(b: int, h: int, i: int, j: int) -> float:
        distance = PLACES[i] - PLACES[j]
        factors = [cmath.exp(1j * distance * speed) for speed in expected]
        return rotation_by_complex(q[b, h, i], k[b, h, j], factors, layout)

    close(got, pair_by_pair(q, logit))


def test_default_clips_twenty_of_64_pairs_as_released() -> None:
    plain, got = speeds(make(128, "rope")), speeds(make(128))
    taper = got / plain
    assert torch.equal(taper[:45], torch.ones(45).double())  # 44 and the first of 20
    assert (taper[44:].diff() < 0).all()
    assert got[63] == 0
    # A half cosine is odd about its middle, where it is 1/2.
    close(taper[44:] + taper[44:].flip(0), torch.ones(20).double(), 1e-15)
    assert torch.equal(got, speeds(make(128, share=20 / 64, clip="soft")))


@pytest.mark.parametrize("clip", ["soft", "hard"])
@pytest.mark.parametrize("layout", ["adjacent", "half"])
def test_no_share_is_rope(layout: str, clip: str) -> None:
    x, positions = normal(1, 2, 6, 16), torch.tensor(PLACES)
    rope = make(name="rope", layout=layout)
    # A twentieth of 8 pairs is none.
    for share in (0.0, 0.05):
        scheme = make(layout=layout, share=share, clip=clip)
        assert torch.equal(scheme.query(x, positions), rope.query(x, positions))


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.625, 1.0])
def test_hard_is_p_rope_with_the_other_frequencies(share: float, layout: str) -> None:
    x, positions = normal(1, 2, 6, 16), torch.tensor(PLACES)
    hard = make(layout=layout, share=share, clip="hard")
    p_rope = make(name="p_rope", layout=layout, fraction=1 - share)
    assert torch.equal(hard.query(x, positions), p_rope.query(x, positions))
    assert torch.equal(hard.key(x, positions), p_rope.key(x, positions))


def test_soft_begins_and_ends_at_the_pairs_of_hard() -> None:
    plain, soft, hard = (
        speeds(scheme)
        for scheme in (
            make(name="rope"),
            make(share=0.5),
            make(share=0.5, clip="hard"),
        )
    )
    assert torch.equal(soft[:5], plain[:5])
    assert torch.equal(hard[:4], plain[:4])
    assert (hard[4:] == 0).all()
    assert (soft[5:7] > 0).all()
    assert soft[7] == 0


def test_one_pair_stands_still_if_hard_alone() -> None:
    plain = speeds(make(name="rope"))
    assert torch.equal(speeds(make(share=0.125)), plain)
    assert speeds(make(share=0.125, clip="hard"))[7] == 0 < plain[7]


@pytest.mark.parametrize(
    "options", [{"base": 9_000.0}, {"layout": "half"}, {"share": 0.5}, {"clip": "hard"}]
)
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([5, 50, 400])
    change = make(**options).query(x, positions) - make().query(x, positions)
    assert change.abs().max() > 1e-4


def test_close_positions_stay_apart_in_bfloat16() -> None:
    check_rotation_keeps_close_positions_apart(make().query)


def test_odd_head() -> None:
    with pytest.raises(ConfigError, match="rope_clipped: head_dim must be even, got 7"):
        make(7)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_share_out_of_range(share: float) -> None:
    with pytest.raises(
        ConfigError, match=rf"rope_clipped: share must be in \[0, 1\], got {share}"
    ):
        make(share=share)


def test_unknown_clip() -> None:
    with pytest.raises(
        ConfigError, match="rope_clipped: clip must be soft or hard, got 'firm'"
    ):
        make(clip="firm")
