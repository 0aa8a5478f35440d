"""Resonance RoPE against complex numbers, one pair at a time."""

import cmath
import math
from typing import Any

import pytest
import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import (
    close,
    normal,
)
from torch import Tensor

from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.shared.rotation import rotation_angles


class TestRopeResonance(RotaryTests):
    name = "rope_resonance"
    cases = [
        Case({"base": base, "layout": layout}, head_dim=head_dim)
        for head_dim in (16, 6, 2)
        for base, layout in (
            (1e4, "adjacent"),
            (1e4, "half"),
            (100.0, "half"),
            (3.0, "adjacent"),
        )
    ]
    changes = [{"base": 9_000.0}, {"layout": "half"}]
    errors = [({"base": 0.0}, r"base must be greater than 0, got 0\.0")]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        """Hands that have gone the rest of the distance, of a whole wavelength."""
        found, width = [], t.q.shape[-1]
        for m in range(width // 2):
            exact = 2 * math.pi * t.option("base") ** (2 * m / width)
            below = math.floor(exact)
            wave = below if exact - below < 0.5 else below + 1
            found.append(cmath.exp(2j * math.pi * ((query - key) % wave) / wave))
        return found


WAVES = [6, 20, 63, 199, 628, 1987, 6283, 19_869]  # 2 pi 10**(m / 2), rounded


def make(head_dim: int = 16, name: str = "rope_resonance", **options: Any) -> Scheme:
    return create(name, options=options, model_dim=2 * head_dim, heads=2)


def wavelengths(scheme: Scheme) -> Tensor:
    angles = rotation_angles(scheme, torch.tensor([1]))
    assert angles is not None
    return 2 * math.pi / angles[0]


def test_wavelengths_are_whole_numbers_near_those_of_rope() -> None:
    got = wavelengths(make())
    # A quotient and its inverse: two roundings of 2**-53.
    torch.testing.assert_close(
        got, torch.tensor(WAVES).double(), rtol=2 * 2.0**-53, atol=0
    )
    assert (got - wavelengths(make(name="rope"))).abs().max() <= 0.5


def test_wavelengths_are_at_least_one() -> None:
    x = normal(1, 2, 3, 8)
    # Of 6.28, 1.99, 0.63 and 0.2 positions.
    scheme = make(8, base=0.01)
    close(wavelengths(scheme), torch.tensor([6.0, 2, 1, 1]).double(), 1e-15)
    got = scheme.query(x, torch.tensor([1, 10, 100]))
    close(got[..., 4:], x[..., 4:])  # whole turns
    assert (got - x)[..., :2].abs().max() > 0.1


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
