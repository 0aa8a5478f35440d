"""GRAPE-A against the formula, one pair at a time."""

import math

import pytest
import torch
from schemes.reference import Inputs, LogitTests
from schemes.tools import (
    build,
    content_plus,
    dot,
    drawn,
    vectors,
)
from torch import Tensor

from posenc_compare.schemes.call import Call, all_pairs
from posenc_compare.schemes.grape_a import GrapeA
from posenc_compare.schemes.shared.slopes import slopes

HEADS, WIDTH = 3, 8
PLACES = [0, 1, 2, 40, 7, 300]


def make(**options: object) -> GrapeA:
    return build(GrapeA, options, model_dim=HEADS * WIDTH, heads=HEADS)


class TestGrapeA(LogitTests):
    name = "grape_a"
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS}
    places = [PLACES, PLACES[::-1]]
    atol, half_atol = 1e-11, 1e-4
    cases = [{"gate": "query"}, {"gate": "key"}]
    gradients = cases
    changes = [{"gate": "key"}]

    def logits(self, t: Inputs) -> Tensor:
        places = t.positions.tolist()

        def bias(b: int, h: int, i: int, j: int) -> float:
            direction = t.scheme.direction[h].tolist()
            length = math.sqrt(dot(direction, direction))
            x = t.q[b, h, i] if t.option("gate") == "query" else t.k[b, h, j]
            along = dot(direction, x.tolist()) / length / math.sqrt(WIDTH)
            steep = math.log1p(math.exp(t.scheme.steepness[h].item()))
            distance = abs(places[b][i] - places[b][j])
            return -distance * steep * slopes(HEADS)[h] * math.log1p(math.exp(along))

        return content_plus(t.q, t.k, bias)


def test_starts_as_released() -> None:
    heads = 64
    scheme = build(GrapeA, model_dim=heads * 256, heads=heads)
    softplus = torch.nn.functional.softplus(scheme.steepness)
    torch.testing.assert_close(softplus, torch.ones_like(softplus), rtol=1e-6, atol=0)
    assert scheme.direction.std().item() == pytest.approx(1 / 16, rel=0.02)


@pytest.mark.parametrize("gate", ["query", "key"])
def test_the_bias_is_wide_where_queries_and_keys_are_not(gate: str) -> None:
    scheme = drawn(make(gate=gate)).float()
    positions = torch.tensor([15_962, 15_966, 40_000])
    q, k, _ = vectors(1, HEADS, 3, WIDTH)
    narrow = (q.bfloat16(), k.bfloat16())
    wide = (narrow[0].float(), narrow[1].float())
    got, expected = (
        all_pairs(scheme.pair_bias(call), call)
        for call in (
            Call(q, k, positions[None], positions[None]) for q, k in (narrow, wide)
        )
    )
    assert torch.equal(got, expected)
