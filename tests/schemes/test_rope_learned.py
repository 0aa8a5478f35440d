"""Trained frequencies against complex numbers, one pair at a time."""

import cmath
import math

import pytest
import torch
from schemes.reference import Case, Inputs, RotaryTests, combine
from schemes.tools import (
    CLOSE_POSITIONS,
    build,
    check_rotation_keeps_close_positions_apart,
    close,
    perturbed,
    vectors,
)

from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.rope_learned import RopeLearned

HEADS, WIDTH = 3, 8


class TestRopeLearned(RotaryTests):
    name = "rope_learned"
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS}
    noise, atol = 0.3, 1e-11
    cases = combine(
        by=("layer", "head"), temperature=(False, True), layout=("adjacent", "half")
    )
    gradients = combine(by=("layer", "head"), temperature=(True,))
    changes = [
        {"base": 9_000.0},
        {"layout": "half"},
        {"by": "head"},
        {"temperature": True},
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        logs, warmth = t.scheme.frequency.expand(HEADS, -1), 0.0
        if t.option("temperature"):
            warmth = t.scheme.temperature[h].item()
        speeds = [math.exp(log) for log in logs[h].tolist()]
        return [math.exp(warmth) * cmath.exp(1j * (query - key) * s) for s in speeds]

    def test_bfloat16_keeps_close_positions_apart(self) -> None:
        scheme = self.build(Case()).requires_grad_(False)
        check_rotation_keeps_close_positions_apart(scheme.query, CLOSE_POSITIONS)

    def test_an_odd_head_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="head_dim must be even, got 7"):
            create("rope_learned", model_dim=7, heads=1)


def make(noise: float = 0.3, **options: object) -> RopeLearned:
    scheme = build(RopeLearned, options, model_dim=HEADS * WIDTH, heads=HEADS)
    return perturbed(scheme, noise)


@pytest.mark.parametrize("by", ["layer", "head"])
def test_starts_as_rope(by: str) -> None:
    q, *_ = vectors(2, HEADS, 6, WIDTH)
    rope = create("rope", model_dim=HEADS * WIDTH, heads=HEADS)
    got = make(noise=0, by=by, temperature=True).query(q, torch.arange(6))
    # Logarithms of the frequencies are kept in float32.
    close(got, rope.query(q, torch.arange(6)), 1e-5)


def test_parameters() -> None:
    sizes = {
        (by, temperature): sum(
            p.numel() for p in make(by=by, temperature=temperature).parameters()
        )
        for by in ("layer", "head")
        for temperature in (False, True)
    }
    assert list(sizes.values()) == [4, 7, 12, 15]
