"""2-D RoPE, axial and mixed, against complex numbers, one pair at a time."""

import cmath
import math
from typing import Any

import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import (
    build,
    close,
    normal,
    seeded,
)
from torch import Tensor

from posenc_compare.schemes import create
from posenc_compare.schemes.rope_2d import Rope2d


def make(head_dim: int = 16, heads: int = 2, seed: int = 0, **options: Any) -> Rope2d:
    sizes = {"model_dim": heads * head_dim, "heads": heads}
    return build(Rope2d, options, seed=seed, **sizes)


def ids(batch: int = 2, length: int = 5) -> Tensor:
    return torch.randint(-5, 30, (batch, length, 2), generator=seeded(7))


class TestRope2d(RotaryTests):
    name = "rope_2d"
    sizes = {"model_dim": 32, "heads": 2}
    places = ids().tolist()
    noise = 0.3
    cases = [
        Case(rule, head_dim=head_dim)
        for head_dim in (4, 16)
        for rule in (
            {},
            {"first": "h"},
            {"base": 7.0, "layout": "half"},
            {"kind": "mixed"},
            {"kind": "mixed", "layout": "half", "base": 50.0},
        )
    ]
    gradients = [Case({"kind": "mixed"}, head_dim=4)]
    changes = [
        {"kind": "mixed"},
        {"base": 99.0},
        {"first": "h"},
        {"layout": "half"},
        ({"kind": "mixed"}, {"base": 11.0}),
        ({"kind": "mixed"}, {"layout": "half"}),
    ]
    errors = [
        (Case(head_dim=6), "head_dim must be a multiple of 4, got 6"),
        ({"kind": "mixed", "base": -1.0}, r"base must be greater than 0, got -1\.0"),
    ]

    def factors(self, t: Inputs, h: int, query: Any, key: Any) -> list[complex]:
        row, column = (a - b for a, b in zip(query, key, strict=True))
        quarter, angles = t.q.shape[-1] // 4, []
        if t.option("kind") == "mixed":
            down, across = t.scheme.frequencies[:, h].tolist()
            both = zip(down, across, strict=True)
            angles = [row * one + column * other for one, other in both]
        else:
            base = t.option("base") or 100.0
            speeds = [base ** (-m / quarter) for m in range(quarter)]
            first, second = (row, column) if t.option("first") == "h" else (column, row)
            angles = [place * s for place in (first, second) for s in speeds]
        return [cmath.exp(1j * angle) for angle in angles]


def test_axial_is_rope_of_half_a_head_for_each_axis() -> None:
    x, places = normal(2, 2, 5, 16), ids()
    rope = create("rope", options={"base": 100.0}, model_dim=16, heads=2)
    by_column = rope.query(x[..., :8], places[..., 1])
    by_row = rope.query(x[..., 8:], places[..., 0])
    got = make(base=100.0).query(x, places)
    close(got, torch.cat([by_column, by_row], -1), 1e-14)
    swapped = make(first="h").query(x, places.flip(-1))
    assert torch.equal(swapped, got)


def test_mixed_starts_as_axial_in_a_direction_of_each_head() -> None:
    rows, columns = make(head_dim=32, heads=64, kind="mixed").frequencies.detach()
    speeds = torch.tensor([10.0 ** (-m / 8) for m in range(8)] * 2).double()
    close(torch.hypot(rows, columns), speeds.expand(64, 16), 1e-6)
    angle = torch.atan2(rows, columns) % (2 * math.pi)
    ahead = (angle - angle[:, :1] + 1) % (2 * math.pi) - 1
    quarter_turn = torch.tensor([0.0] * 8 + [math.pi / 2] * 8).double()
    close(ahead, quarter_turn.expand(64, 16), 1e-5)
    assert angle[:, 0].sort().values.diff().max() < 1


def test_mixed_with_straight_directions_is_axial() -> None:
    x, places = normal(2, 2, 5, 16), ids()
    scheme = make(kind="mixed", base=100.0)
    size = torch.tensor([100.0 ** (-m / 4) for m in range(4)])
    none = torch.zeros(4)
    with torch.no_grad():
        scheme.frequencies[0] = torch.cat([none, size])  # row
        scheme.frequencies[1] = torch.cat([size, none])  # column
        got = scheme.query(x, places)
    close(got, make().query(x, places), 1e-5)
