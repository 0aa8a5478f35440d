"""HoPE against complex numbers, one pair at a time."""

import cmath
import math

from schemes.reference import Case, Inputs, RotaryTests


class TestHope(RotaryTests):
    name = "hope"
    sizes = {"model_dim": 32, "heads": 2}
    cases = [
        {"length": length, "base": base, "layout": layout}
        for length in (7, 62, 63, 512, 10**6)
        for base, layout in ((10_000.0, "adjacent"), (100.0, "half"))
    ]
    identities = [
        ({}, {}, "p_rope:fraction=0.5"),  # 4 of 8 pairs have a period of at most 512
        ({"length": 10**6}, {}, "rope"),
    ]
    changes = [{"base": 9_000.0}, {"layout": "half"}, {"length": 100}]
    errors = [
        (case, f"length must be at least 7, got {got}")
        for case, got in (({"length": 6}, 6), ({"length": -1}, -1), (Case(length=6), 6))
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        base, length = t.option("base"), t.option("length")
        periods = [2 * math.pi * base ** (2 * m / 16) for m in range(8)]
        turns = [(query - key) / p if p <= length else 0.0 for p in periods]
        return [cmath.exp(2j * math.pi * turn) for turn in turns]
