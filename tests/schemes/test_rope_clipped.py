"""Clipped RoPE against complex numbers, one pair at a time."""

import cmath
import math
from typing import Any

import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import (
    close,
)
from torch import Tensor

from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.shared.rotation import rotation_angles


class TestRopeClipped(RotaryTests):
    name = "rope_clipped"
    # How many pairs are clipped, by head size and share.
    clipped = {
        (16, 0.05): 0,
        (16, 0.75): 6,
        (16, 0.7): 6,
        (16, 0.3): 2,
        (6, 1.0): 3,
        (2, 1.0): 1,
    }
    cases = [
        Case(
            {"share": share, "clip": clip, "base": base, "layout": layout},
            head_dim=head_dim,
        )
        for head_dim, share in clipped
        for clip in ("soft", "hard")
        for base, layout in ((10_000.0, "adjacent"), (100.0, "half"))
    ]
    identities = [
        ({"share": 0.0}, {}, "rope"),
        ({"share": 0.25, "clip": "hard"}, {}, "p_rope:fraction=0.75"),
    ]
    changes = [{"base": 9_000.0}, {"layout": "half"}, {"share": 0.5}, {"clip": "hard"}]
    errors = [
        *(
            ({"share": share}, rf"share must be in \[0, 1\], got {share}")
            for share in (-0.1, 1.1)
        ),
        ({"clip": "firm"}, "clip must be soft or hard, got 'firm'"),
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        width = t.q.shape[-1]
        clipped = self.clipped[width, t.option("share")]
        found = slow_speeds(width, t.option("base"), clipped, t.option("clip"))
        return [cmath.exp(1j * (query - key) * speed) for speed in found]


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


def test_default_clips_twenty_of_64_pairs_as_released() -> None:
    plain, got = speeds(make(128, "rope")), speeds(make(128))
    taper = got / plain
    assert torch.equal(taper[:45], torch.ones(45).double())  # 44 and the first of 20
    assert (taper[44:].diff() < 0).all()
    assert got[63] == 0
    # A half cosine is odd about its middle, where it is 1/2.
    close(taper[44:] + taper[44:].flip(0), torch.ones(20).double(), 1e-15)
    assert torch.equal(got, speeds(make(128, share=20 / 64, clip="soft")))
