"""p-RoPE against complex numbers, one pair at a time."""

import cmath
from typing import Any

import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import (
    normal,
)

from posenc_compare.schemes import Scheme, create


class TestPRope(RotaryTests):
    name = "p_rope"
    # How many pairs are kept, by head size and fraction.
    kept = {(16, 0.75): 6, (16, 0.7): 5, (16, 0.25): 2, (6, 0.5): 1, (2, 1.0): 1}
    cases = [
        Case({"fraction": fraction, "base": base, "layout": layout}, head_dim=head_dim)
        for head_dim, fraction in kept
        for base, layout in ((10_000.0, "adjacent"), (100.0, "half"))
    ]
    identities = [({"fraction": 1.0}, {}, "rope"), ({"fraction": 0.0}, {}, "nope")]
    changes = [{"base": 9_000.0}, {"layout": "half"}, {"fraction": 0.5}]
    errors = [
        ({"fraction": fraction}, rf"fraction must be in \[0, 1\], got {fraction}")
        for fraction in (-0.1, 1.1)
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        width = t.q.shape[-1]
        kept = self.kept[width, t.option("fraction")]
        speeds = [t.option("base") ** (-2 * m / width) for m in range(width // 2)]
        angles = [(query - key) * speed for speed in speeds[:kept]]
        return [cmath.exp(1j * a) for a in angles] + [1] * (len(speeds) - kept)


def make(head_dim: int = 16, name: str = "p_rope", **options: Any) -> Scheme:
    return create(name, options=options, model_dim=2 * head_dim, heads=2)


def test_is_not_partial_rope() -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([1, 10, 100])
    kept = make(fraction=0.5).query(x, positions)
    partial = make(name="rope", fraction=0.5).query(x, positions)
    # The same channels turn in this layout, by other angles.
    assert torch.equal(kept[..., 8:], partial[..., 8:])
    assert (kept - partial).abs().max() > 0.1
