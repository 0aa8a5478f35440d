"""ComRoPE against the exponential of one matrix at a time."""

import math
from typing import Any

import pytest
import torch
from schemes.reference import Case, Inputs, LogitTests
from schemes.tools import (
    build,
    check_rotation_keeps_close_positions_apart,
    close,
    close_positions,
    normal,
    pair_by_pair,
    seeded,
)
from scipy.linalg import expm
from torch import Tensor

from posenc_compare.schemes.com_rope import ComRope
from posenc_compare.schemes.lie_re import LieRe
from posenc_compare.schemes.rope_2d import Rope2d
from posenc_compare.schemes.shared.blocks import TurnedBlocks

KINDS, SIDES = ["ld", "ap"], ["height", "width"]


def make(head_dim: int = 16, heads: int = 2, seed: int = 0, **options: Any) -> ComRope:
    sizes = {"model_dim": heads * head_dim, "heads": heads, "length": 25}
    return build(ComRope, options, seed=seed, **sizes)


def ids(batch: int = 2, length: int = 5) -> Tensor:
    return torch.randint(-5, 30, (batch, length, 2), generator=seeded(7))


def slow_turn(
    scheme: ComRope, head: int, x: Tensor, place: Tensor, sides: list[int]
) -> Tensor:
    """Turn one vector, block by block."""
    row, column = (place[axis].item() / sides[axis] for axis in (0, 1))
    turned = []
    for block, part in enumerate(x.split(scheme.block)):
        matrix = scheme.matrix[head, block]
        if scheme.speeds is None:
            at = column if block % 2 else row
        else:
            down, across = scheme.speeds[:, block].tolist()
            at = row * down + column * across
        turn = expm(at * (matrix - matrix.T).numpy())
        turned.append(torch.from_numpy(turn) @ part)
    return torch.cat(turned)


class TestComRope(LogitTests):
    name = "com_rope"
    sizes = {"model_dim": 32, "heads": 2, "length": 25}
    places = ids().tolist()
    cases = [
        {},
        {"block": 4, "height": 3, "width": 9},
        {"block": 2},
        {"kind": "ap"},
        {"kind": "ap", "block": 4, "height": 1, "width": 9},
        {"kind": "ap", "block": 2},
    ]
    gradients = [
        Case({"kind": kind, "block": block}, head_dim=8)
        for kind in KINDS
        for block in (2, 4)
    ]
    identities = [({"kind": kind}, {"matrix": 0}, "nope") for kind in KINDS]
    changes = [{"kind": "ap"}, {"block": 4}, {"height": 6}, {"width": 6}]
    errors = [
        *(
            (
                {"block": block},
                f"block must be at least 2 and divide head_dim, got {block} and 16",
            )
            for block in (0, 1, -2, 3, 32)
        ),
        (
            {"kind": "ap", "block": 16},
            "block must divide half of head_dim, got 16 and 16",
        ),
        *(({name: -1}, f"{name} must be at least 1, got -1") for name in SIDES),
    ]

    def trained(self, case: Case) -> ComRope:
        return self.build(case).requires_grad_(False)

    def logits(self, t: Inputs) -> Tensor:
        sides = [t.option(name) or 5 for name in SIDES]

        def logit(b: int, h: int, i: int, j: int) -> float:
            query = slow_turn(t.scheme, h, t.q[b, h, i], t.positions[b, i], sides)
            key = slow_turn(t.scheme, h, t.k[b, h, j], t.positions[b, j], sides)
            return (query @ key).item() / math.sqrt(16)

        return pair_by_pair(t.q, logit)

    def test_bfloat16_keeps_close_positions_apart(self) -> None:
        for kind in KINDS:
            scheme = make(kind=kind).requires_grad_(False)
            places = close_positions(scheme)
            check_rotation_keeps_close_positions_apart(scheme.query, places)


def test_a_block_may_be_the_whole_head() -> None:
    assert make(kind="ld", block=16).block == 16


@pytest.mark.parametrize("kind", KINDS)
def test_generators_commute_and_those_of_lie_re_do_not(kind: str) -> None:
    def commutator(scheme: TurnedBlocks) -> float:
        row, column = scheme.generators()
        return (row @ column - column @ row).abs().max().item()

    assert commutator(make(kind=kind)) < 1e-12
    assert commutator(build(LieRe)) > 1


def test_axial_blocks_of_two_are_axial_rope() -> None:
    x, scheme = normal(2, 2, 5, 16), make(kind="ap", block=2)
    axial = build(Rope2d, {"first": "h"}, model_dim=32, heads=2)
    half = torch.arange(4)
    with torch.no_grad():
        # Blocks take turns; the pairs of the row come first in rope_2d.
        scheme.matrix.zero_()
        scheme.matrix[:, :, 1, 0] = 5 * 100.0 ** -(torch.arange(8).double() // 2 / 4)
        order = torch.stack([half, half + 4], dim=-1).flatten()
        dealt = x.unflatten(-1, (8, 2))[..., order, :].flatten(-2)
        got = scheme.query(dealt, ids())
        expected = axial.query(x, ids()).unflatten(-1, (8, 2))[..., order, :]
    close(got, expected.flatten(-2))


def test_dependent_blocks_of_two_are_mixed_rope() -> None:
    x, scheme = normal(2, 2, 5, 16), make(block=2)
    mixed = build(Rope2d, {"kind": "mixed"}, model_dim=32, heads=2)
    with torch.no_grad():
        speed = scheme.matrix[..., 1, 0] - scheme.matrix[..., 0, 1]
        assert scheme.speeds is not None
        mixed.frequencies.copy_(scheme.speeds[:, None] * speed / 5)
        close(scheme.query(x, ids()), mixed.query(x, ids()), 1e-12)
        close(scheme.key(x, ids()), mixed.key(x, ids()), 1e-12)


def test_lie_re_at_the_same_generators_is_the_same() -> None:
    x, scheme = normal(2, 2, 5, 16), make().requires_grad_(False)
    lie = build(LieRe, {"height": 6, "width": 6}, model_dim=32, heads=2)
    row, column = torch.triu_indices(8, 8, 1)
    with torch.no_grad():
        lie.entries.copy_(scheme.generators()[..., row, column])
        close(lie.query(x, ids()), scheme.query(x, ids()), 1e-12)
