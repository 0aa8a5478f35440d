"""LieRE against the exponential of one matrix at a time."""

import math
from itertools import combinations
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

from posenc_compare.attention import Mask, Session
from posenc_compare.schemes import create
from posenc_compare.schemes.lie_re import LieRe
from posenc_compare.schemes.rope_2d import Rope2d

SIDES = ["height", "width"]
BOTH = Mask(causal=False)
# Generators times positions have norms up to 1000 in the slow test. The exponential is
# known to 1000 * 2 ** -52 then, and a logit sums some.
ROUNDING = 1e-11


def make(head_dim: int = 8, heads: int = 2, seed: int = 0, **options: Any) -> LieRe:
    sizes = {"model_dim": heads * head_dim, "heads": heads, "length": 25}
    return build(LieRe, options, seed=seed, **sizes)


def ids(batch: int = 2, length: int = 5) -> Tensor:
    return torch.randint(-5, 30, (batch, length, 2), generator=seeded(7))


def slow_turn(
    scheme: LieRe, head: int, x: Tensor, place: Tensor, steps: list[int]
) -> Tensor:
    """Turn one vector, block by block."""
    size, shared = scheme.block, len(scheme.entries[0]) == 1
    turned = []
    for block, part in enumerate(x.split(size)):
        matrix = torch.zeros(size, size, dtype=torch.float64)
        for axis in (0, 1):
            entries = scheme.entries[axis, 0 if shared else head, block].tolist()
            at = place[axis].item() / steps[axis]
            pairs = combinations(range(size), 2)
            for (i, j), entry in zip(pairs, entries, strict=True):
                matrix[i, j] += at * entry
                matrix[j, i] -= at * entry
        turned.append(torch.from_numpy(expm(matrix.numpy())) @ part)
    return torch.cat(turned)


class TestLieRe(LogitTests):
    name = "lie_re"
    sizes = {"model_dim": 16, "heads": 2, "length": 25}
    places = ids().tolist()
    atol = ROUNDING
    cases = [
        {},
        Case({"block": 3}, head_dim=6),
        {"block": 4, "by": "layer"},
        {"block": 2, "height": 3, "width": 11},
        Case({"block": 0, "height": 1, "width": 2}, head_dim=5),
    ]
    gradients = [{}, {"by": "layer", "block": 2}]
    identities = [({}, {"entries": 0}, "nope")]
    changes = [{"block": 4}, {"by": "layer"}, {"height": 6}, {"width": 6}]
    errors = [
        *(
            (
                {"block": block},
                f"block must be at least 2 and divide head_dim, got {block} and 8",
            )
            for block in (1, -2, 3, 16)
        ),
        *(({name: -1}, f"{name} must be at least 1, got -1") for name in SIDES),
    ]

    def build(self, case: Case) -> LieRe:
        sizes = {"head_dim": 8, **case.sizes}
        return make(**sizes, **case.options)

    def trained(self, case: Case) -> LieRe:
        return self.build(case).requires_grad_(False)

    def logits(self, t: Inputs) -> Tensor:
        # Rows and columns are divided by the side less one, which is 5 by default.
        steps = [max((t.option(name) or 5) - 1, 1) for name in SIDES]

        def logit(b: int, h: int, i: int, j: int) -> float:
            query = slow_turn(t.scheme, h, t.q[b, h, i], t.positions[b, i], steps)
            key = slow_turn(t.scheme, h, t.k[b, h, j], t.positions[b, j], steps)
            return (query @ key).item() / math.sqrt(t.q.shape[-1])

        return pair_by_pair(t.q, logit)

    def test_bfloat16_keeps_close_positions_apart(self) -> None:
        for block in (2, 8):
            scheme = make(16, block=block).requires_grad_(False)
            places = close_positions(scheme)
            check_rotation_keeps_close_positions_apart(scheme.query, places)


def test_blocks_of_two_are_mixed_rope() -> None:
    x, scheme = normal(2, 2, 5, 16), make(16, block=2, height=3, width=6)
    mixed = build(Rope2d, {"kind": "mixed"}, model_dim=32, heads=2)
    with torch.no_grad():
        # An entry above the diagonal turns the pair clockwise.
        span = torch.tensor([2, 5])[:, None, None]
        mixed.frequencies.copy_(-scheme.entries[..., 0] / span)
        close(scheme.query(x, ids()), mixed.query(x, ids()), 1e-12)
        close(scheme.key(x, ids()), mixed.key(x, ids()), 1e-12)


def test_blocks_of_two_turn_far_without_rounding() -> None:
    # Half a million rotations: the squarings of matrix_exp would be off by 1e-10.
    scheme = make(4, block=2, height=2, width=2).requires_grad_(False)
    scheme.entries.fill_(math.pi)
    turns = scheme.turns(torch.tensor([[1_000_000, 0], [0, 1_000_001]]))
    unit = torch.eye(2).double().expand_as(turns[:, 0])
    # An angle of 3e6 is known to half a unit in its last place.
    close(turns[:, 0], unit, 4e-10)
    close(turns[:, 1], -unit, 4e-10)


@pytest.mark.parametrize(
    ("length", "side"), [(1, 1), (2, 2), (24, 5), (25, 5), (26, 6)]
)
def test_an_image_is_the_smallest_square_that_holds_the_length(
    length: int, side: int
) -> None:
    scheme = create("lie_re", length=length, model_dim=16, heads=2)
    assert scheme.span == (max(1, side - 1), max(1, side - 1))


def test_turns_without_a_gradient_are_made_once_for_queries_and_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheme, x, made = make(), normal(2, 2, 5, 8), []
    inside = scheme.turns
    monkeypatch.setattr(scheme, "turns", lambda p: made.append(p) or inside(p))
    session = Session(scheme, ids(), mask=BOTH)
    with torch.no_grad():
        session.attend(0, x, x, x)
    assert len(made) == 1
    # With a gradient, they are made where they are used.
    session.attend(0, x, x, x).sum().backward()
    assert len(made) == 3
    assert scheme.entries.grad is not None
    assert scheme.entries.grad.abs().min() > 0
