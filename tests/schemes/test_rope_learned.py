"""Trained frequencies against complex numbers, one pair at a time."""

import cmath
import math

import pytest
from schemes.reference import Case, Inputs, RotaryTests, combine
from schemes.tools import (
    CLOSE_POSITIONS,
    check_rotation_keeps_close_positions_apart,
)

from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create

HEADS, WIDTH = 3, 8


class TestRopeLearned(RotaryTests):
    name = "rope_learned"
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS}
    noise, atol = 0.3, 1e-11
    cases = combine(
        by=("layer", "head"), temperature=(False, True), layout=("adjacent", "half")
    )
    gradients = combine(by=("layer", "head"), temperature=(True,))
    starts_as = [({"by": by, "temperature": True}, "rope") for by in ("layer", "head")]
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
