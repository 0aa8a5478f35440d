"""RoPE against complex numbers, one pair at a time."""

import cmath
import math

import pytest
import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import channels_of_pair, close, normal
from torch import Tensor

from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.shared.rotation import rotation_angles


def make(head_dim: int = 8, **options: float | str) -> Scheme:
    return create("rope", options=options, model_dim=2 * head_dim, heads=2)


def slow_turn(
    row: list[float], position: int, base: float, layout: str, turned: int
) -> list[float]:
    """(a + ib) * (cos + i sin), the angle being position * base**(-2m / turned)."""
    out = list(row)
    for pair in range(turned // 2):
        left, right = channels_of_pair(pair, turned, layout)
        angle = position * math.pow(base, -2 * pair / turned)
        number = complex(row[left], row[right]) * cmath.exp(1j * angle)
        out[left], out[right] = number.real, number.imag
    return out


def slow(x: Tensor, positions: list[int], *rule: float | str) -> Tensor:
    base, layout, turned = float(rule[0]), str(rule[1]), int(rule[2])
    rows = [
        [
            [
                slow_turn(head[i].tolist(), positions[i], base, layout, turned)
                for i in range(len(positions))
            ]
            for head in row
        ]
        for row in x
    ]
    return torch.tensor(rows, dtype=torch.float64)


class TestRope(RotaryTests):
    name = "rope"
    cases = [
        Case({"fraction": fraction, "base": base, "layout": layout}, head_dim=head_dim)
        for head_dim, fraction in ((8, 1.0), (8, 0.5), (2, 1.0))
        for base, layout in ((1e4, "adjacent"), (5e5, "half"), (100.0, "half"))
    ]
    # Those of its scalings are changed in test_scaling.py.
    unchanged = {"scaling", "factor", "original", "alpha", "beta", "factors"}
    changes = [{"base": 9_999.0}, {"layout": "half"}, {"fraction": 0.5}]
    errors = [
        (
            Case({"fraction": 0.25}, head_dim=12),
            r"fraction \* head_dim must be even, got 3",
        ),
        *(
            (
                {"fraction": fraction},
                rf"fraction must be in \(0, 1\] and rotate at least one pair of 8 "
                rf"channels, got {fraction}",
            )
            for fraction in (0.0, -0.5, 1.5, 0.1)
        ),
        *(
            ({"base": base}, f"base must be greater than 0, got {base}")
            for base in (0.0, -10_000.0)
        ),
        ({"layout": "pairs"}, "layout must be adjacent or half, got 'pairs'"),
    ]

    def logits(self, t: Inputs) -> Tensor:
        turned = int(t.option("fraction") * t.q.shape[-1])
        rule = t.option("base"), t.option("layout"), turned
        q, k = (
            torch.cat(
                [
                    slow(x[b : b + 1], places, *rule)
                    for b, places in enumerate(t.positions.tolist())
                ]
            )
            for x in (t.q, t.k)
        )
        return q @ k.mT / math.sqrt(t.q.shape[-1])


def test_half_is_adjacent_after_a_fixed_permutation_of_channels() -> None:
    x, positions = normal(2, 2, 7, 8), torch.arange(7) * 13
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # firsts of all pairs, then seconds
    adjacent = make(layout="adjacent").query(x, positions)
    half = make(layout="half").query(x[..., order], positions)
    close(half, adjacent[..., order], 1e-15)
    assert not torch.allclose(make(layout="half").query(x, positions), adjacent)


def test_angles_are_those_of_the_rotation() -> None:
    positions = torch.tensor([0, 3, 77])
    scheme = make(8, fraction=0.5, base=100.0)
    angles = rotation_angles(scheme, positions)
    assert angles is not None
    expected = [[float(p), p / 10.0] for p in (0, 3, 77)]
    close(angles, torch.tensor(expected, dtype=torch.float64))


def test_bfloat16_is_rounded_once() -> None:
    positions = [15962, 15966, 15968]  # the first two collide in bfloat16
    row = normal(1, 2, 1, 16).bfloat16()
    x = row.expand(1, 2, 3, 16)
    expected = slow(x.double(), positions, 1e4, "adjacent", 16)
    for door in (make(16).query, make(16).key):
        got = door(x, torch.tensor(positions))
        assert got.dtype == torch.bfloat16
        # One rounding of the result (2**-8 of it), and float32's of the rotation:
        # cos, sin, two products and a sum, each 2**-24 of at most the pair's norm.
        size = expected.unflatten(-1, (8, 2)).norm(dim=-1, keepdim=True)
        size = size.expand(1, 2, 3, 8, 2).flatten(-2)
        bound = 2.0**-8 * expected.abs() + 6 * 2.0**-24 * size
        assert ((got.double() - expected).abs() <= bound).all()
        assert got[0, 0].unique(dim=0).shape[0] == 3


def test_float32_error_does_not_grow_with_the_position() -> None:
    x = normal(1, 2, 2, 16).float()
    positions = [10**6, 10**6 + 1]
    got = make(16).query(x, torch.tensor(positions))
    expected = slow(x.double(), positions, 1e4, "adjacent", 16)
    # Angles in float32 would be wrong by 1e6 * 2**-24 = 0.06 radians.
    close(got.double(), expected, 2e-6)


@pytest.mark.parametrize("layout", ["adjacent", "half"])
def test_partial_turns_the_first_channels_as_a_smaller_head_would(layout: str) -> None:
    x, positions = normal(1, 2, 6, 16), torch.arange(6) * 50
    part = make(16, fraction=0.25, layout=layout).query(x, positions)
    small = make(4, layout=layout).query(x[..., :4], positions)
    assert torch.equal(part[..., :4], small)
    assert torch.equal(part[..., 4:], x[..., 4:])
