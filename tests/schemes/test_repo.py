"""RePo against rotations by positions computed token by token."""

import cmath
import math
from typing import Any

import torch
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

from posenc_compare.attention import attention_logits
from posenc_compare.schemes import create
from posenc_compare.schemes.repo import Repo

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 7, 10
RUN = torch.arange(LENGTH)
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
    test_bfloat16_keeps_close_positions_apart = None

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


def test_tokens_that_choose_their_place_are_ropes() -> None:
    q, k, _, x = inputs()
    scheme = make()
    for layer in (scheme.gate, scheme.content, scheme.place):
        layer.weight.zero_()
    # The first channel opens the gate by silu(1), the second holds the place.
    scheme.gate.weight[0, 0] = scheme.content.weight[0, 1] = 1
    scheme.place.weight[:, 0] = 1 + math.exp(-1)
    x = torch.zeros_like(x)
    x[..., 0], x[..., 1] = 1, RUN.double()
    got = attention_logits(
        q, k, scheme=scheme, positions=RUN, state=scheme.token_state(x)
    )
    rope = create("rope", options={"base": 100.0, "layout": "half"}, **SIZES)
    close(got, attention_logits(q, k, scheme=rope, positions=RUN), 1e-12)


def test_hidden_units() -> None:
    scheme = create("repo", model_dim=64, heads=4)
    assert sum(p.numel() for p in scheme.parameters()) == (2 * 64 + 4) * 8
