"""RePo against rotations by positions computed token by token."""

import cmath
import math
from typing import Any

from schemes.reference import Inputs, LogitTests
from schemes.tools import (
    build,
    close,
    dot,
    drawn,
    normal,
    pair_by_pair,
    rotation_by_complex,
    vectors,
)
from torch import Tensor

from posenc_compare.schemes import create
from posenc_compare.schemes.repo import Repo

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 7, 10
SIZES: dict[str, Any] = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}


def make(**options: object) -> Repo:
    return drawn(build(Repo, {"base": 100.0, "hidden": 3, **options}, **SIZES))


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *vectors(BATCH, HEADS, LENGTH, WIDTH), normal(BATCH, LENGTH, DIM, seed=3)


class TestRepo(LogitTests):
    name = "repo"
    sizes = SIZES
    cases = [{"base": 100.0, "hidden": 3}]
    gradients = cases
    changes = [{"base": 50.0}, {"hidden": 3}]
    errors = [
        ({"hidden": -1}, "hidden must be at least 1, got -1"),
        ({"base": 0.0}, "base must be greater than 0, got 0"),
    ]
    half = None

    def logits(self, t: Inputs) -> Tensor:
        scheme = t.scheme

        def places(token: Tensor) -> list[float]:
            units = []
            both = zip(scheme.gate.weight, scheme.content.weight, strict=True)
            for gate, content in both:
                opened = dot(gate.tolist(), token.tolist())
                silu = opened / (1 + math.exp(-opened))
                units.append(silu * dot(content.tolist(), token.tolist()))
            return [dot(row.tolist(), units) for row in scheme.place.weight]

        found = [[places(token) for token in row] for row in t.x]

        def logit(b: int, h: int, i: int, j: int) -> float:
            away = found[b][i][h] - found[b][j][h]
            factors = [cmath.exp(1j * away * 100.0 ** (-pair / 3)) for pair in range(3)]
            return rotation_by_complex(t.q[b, h, i], t.k[b, h, j], factors, "half")

        return pair_by_pair(t.q, logit)


def test_hidden_units() -> None:
    scheme = create("repo", model_dim=64, heads=4)
    assert sum(p.numel() for p in scheme.parameters()) == (2 * 64 + 4) * 8


def test_equal_tokens_have_equal_positions() -> None:
    *_, x = inputs()
    places = make().token_state(x[:, :1].expand(-1, LENGTH, -1))
    close(places, places[:, :1].expand_as(places), 0)
