"""Resonance RoPE against complex numbers, one pair at a time."""

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
WAVES = [6, 20, 63, 199, 628, 1987, 6283, 19_869]  # 2 pi 10**(m / 2), rounded


def make(head_dim: int = 16, name: str = "rope_resonance", **options: Any) -> Scheme:
    return create(name, options=options, model_dim=2 * head_dim, heads=2)


def wavelengths(scheme: Scheme) -> Tensor:
    angles = rotation_angles(scheme, torch.tensor([1]))
    assert angles is not None
    return 2 * math.pi / angles[0]


def slow_factors(distance: int, width: int, base: float) -> list[complex]:
    """Hands that have gone the remainder of the distance, of a whole wavelength."""
    found = []
    for m in range(width // 2):
        exact = 2 * math.pi * base ** (2 * m / width)
        below = math.floor(exact)
        wave = below if exact - below < 0.5 else below + 1
        found.append(cmath.exp(2j * math.pi * (distance % wave) / wave))
    return found


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("base", [10_000.0, 100.0, 3.0])
@pytest.mark.parametrize("head_dim", [16, 6, 2])
def test_equals_the_slow_reference(head_dim: int, base: float, layout: str) -> None:
    q, k, _ = vectors(1, 2, 6, head_dim)
    scheme = make(head_dim, base=base, layout=layout)
    got = attention_logits(
        q, k, scheme=scheme, positions=torch.tensor(PLACES), mask=Mask(causal=False)
    )

    def logit(b: int, h: int, i: int, j: int) -> float:
        factors = slow_factors(PLACES[i] - PLACES[j], head_dim, base)
        return rotation_by_complex(q[b, h, i], k[b, h, j], factors, layout)

    close(got, pair_by_pair(q, logit))


def test_wavelengths_are_whole_numbers_near_those_of_rope() -> None:
    got = wavelengths(make())
    # A quotient and its inverse: two roundings of 2**-53.
    torch.testing.assert_close(
        got, torch.tensor(WAVES).double(), rtol=2 * 2.0**-53, atol=0
    )
    assert (got - wavelengths(make(name="rope"))).abs().max() <= 0.5


@pytest.mark.parametrize("pair", range(5))
def test_a_pair_repeats_after_its_wavelength(pair: int) -> None:
    x = normal(1, 1, 1, 16).expand(1, 1, 9, 16)
    here = torch.arange(9)
    there = here + WAVES[pair]
    got, rope = make(), make(name="rope")
    two = slice(2 * pair, 2 * pair + 2)
    again, before = got.query(x, there)[..., two], got.query(x, here)[..., two]
    # Half an ulp of an angle below 2 pi 1024 / 6 is 1e-13.
    close(again, before, 1e-12)
    drift = rope.query(x, there)[..., two] - rope.query(x, here)[..., two]
    assert drift.abs().max() > 1e-4


def test_all_pairs_repeat_after_the_common_multiple() -> None:
    q, k, _ = vectors(1, 2, 5, 4)
    scheme = make(4, base=9.0)  # wavelengths 6.28 and 18.85: 6 and 19
    moved = torch.arange(5) + torch.tensor([0, 0, 0, 6 * 19, 6 * 19])
    logits = [
        attention_logits(q, k, scheme=scheme, positions=ids, mask=Mask(causal=False))
        for ids in (torch.arange(5), moved)
    ]
    close(logits[0], logits[1])


def test_wavelengths_are_at_least_one() -> None:
    x = normal(1, 2, 3, 8)
    # Of 6.28, 1.99, 0.63 and 0.2 positions.
    scheme = make(8, base=0.01)
    close(wavelengths(scheme), torch.tensor([6.0, 2, 1, 1]).double(), 1e-15)
    got = scheme.query(x, torch.tensor([1, 10, 100]))
    close(got[..., 4:], x[..., 4:])  # whole turns
    assert (got - x)[..., :2].abs().max() > 0.1


def test_default_options() -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([1, 10, 100])
    named = make(base=10_000.0, layout="adjacent")
    assert torch.equal(make().query(x, positions), named.query(x, positions))


@pytest.mark.parametrize("options", [{"base": 9_000.0}, {"layout": "half"}])
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([5, 50, 400])
    change = make(**options).query(x, positions) - make().query(x, positions)
    assert change.abs().max() > 1e-4


def test_close_positions_stay_apart_in_bfloat16() -> None:
    check_rotation_keeps_close_positions_apart(make().query)


def test_odd_head() -> None:
    with pytest.raises(
        ConfigError, match="rope_resonance: head_dim must be even, got 7"
    ):
        make(7)


def test_base_must_be_positive() -> None:
    with pytest.raises(ConfigError, match=r"base must be greater than 0, got 0\.0"):
        make(base=0.0).query(normal(1, 2, 1, 16), torch.arange(1))
