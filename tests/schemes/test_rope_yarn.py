"""rope_yarn against the formula of YaRN, without rounding to whole pairs."""

import cmath
import math
from typing import Any

import pytest
import torch
from schemes.reference import Case, Inputs, RotaryTests

from posenc_compare.schemes import create


def frequencies(
    d: int, base: float, s: float, length: int, alpha: float, beta: float
) -> list[float]:
    def index(turns: float) -> float:
        return d * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(index(beta), 0.0), min(index(alpha), d - 1)
    found = []
    for m in range(d // 2):
        kept = 1 - min(1.0, max(0.0, (m - low) / (high - low)))
        found.append(base ** (-2 * m / d) * (kept + (1 - kept) / s))
    return found


class TestRopeYarn(RotaryTests):
    name = "rope_yarn"
    cases = [
        Case({"factor": 4.0, "base": base, "layout": layout, "original": original})
        for base, layout in ((10_000.0, "adjacent"), (100.0, "half"))
        for original in (64, 4096)
    ] + [
        Case({"factor": 2.0, "alpha": 2.0, "beta": 8.0, "original": 300}),
        Case({"attention": 1.5, "original": 100}),
    ]
    identities = [({"factor": 1.0}, {}, "rope")]
    changes = [
        {"base": 9_000.0},
        {"layout": "half"},
        {"fraction": 0.5},
        {"factor": 2.0},
        {"original": 40},
        {"alpha": 2.0},
        {"beta": 16.0},
        {"truncate": True},
        {"attention": 1.0},
    ]
    errors = [
        ({"factor": 0.5}, r"factor must be at least 1, got 0\.5"),
        ({"attention": -1.0}, r"attention must be at least 0, .*, got -1\.0"),
        ({"alpha": 40.0}, "alpha must be above 0 and below beta"),
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        names = ("base", "factor", "original", "alpha", "beta")
        base, s, original, alpha, beta = (t.option(name) for name in names)
        length = original or t.scheme.geometry.length
        speeds = frequencies(t.q.shape[-1], base, s, length, alpha, beta)
        size = (t.option("attention") or 0.1 * math.log(s) + 1) ** 2
        return [size * cmath.exp(1j * (query - key) * speed) for speed in speeds]


def make(name: str, **options: Any) -> Any:
    return create(name, options=options, model_dim=128, heads=2, length=2048)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_truncated_it_is_yarn_of_rope(fraction: float) -> None:
    given = {"factor": 8.0, "fraction": fraction, "base": 5e5}
    rope, places = make("rope", scaling="yarn", **given), torch.arange(3)
    ours = make("rope_yarn", truncate=True, **given)
    assert torch.equal(ours.angles(places), rope.angles(places))
    assert ours.attention_factor == rope.attention_factor
    other = make("rope_yarn", **given)
    assert not torch.equal(other.angles(places), rope.angles(places))
