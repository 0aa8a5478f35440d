"""GRAPE-A against the formula, one pair at a time."""

import math

import pytest
import torch
from schemes.reference import Inputs, LogitTests
from schemes.tools import (
    build,
    content_plus,
    dot,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import attention_logits
from posenc_compare.schemes import create
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
def test_no_direction_is_alibi_with_another_slope(gate: str) -> None:
    scheme = make(gate=gate)
    with torch.no_grad():
        scheme.direction.zero_()
    q, k, _ = vectors(1, HEADS, 6, WIDTH)
    positions = torch.tensor(PLACES)
    got = attention_logits(q, k, scheme=scheme, positions=positions)
    alibi = create("alibi", model_dim=HEADS * WIDTH, heads=HEADS).double()
    plain = attention_logits(q, k, scheme=create("nope"), positions=positions)
    linear = attention_logits(q, k, scheme=alibi, positions=positions) - plain
    seen = plain.isfinite()
    # softplus(0) is log 2, and the steepness starts at a softplus of 1 in float32
    expected = plain + linear * math.log(2)
    torch.testing.assert_close(got[seen], expected[seen], rtol=1e-6, atol=1e-9)
