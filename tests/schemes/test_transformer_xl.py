"""Transformer-XL's four terms, one pair of tokens at a time."""

import math

import torch
from schemes.reference import Case, Inputs, LogitTests, combine
from schemes.tools import (
    build,
    check_bias_keeps_close_positions_apart,
    dot,
    drawn,
    pair_by_pair,
)
from torch import Tensor

from posenc_compare.schemes.transformer_xl import TransformerXl

HEADS, WIDTH, DIM = 2, 6, 10
PLACES = [3, 4, 6, 10, 11, 12, 200]


def make(**options: int | float) -> TransformerXl:
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}
    return drawn(build(TransformerXl, options, **sizes))


def sinusoid(distance: int, base: float) -> list[float]:
    half = DIM // 2
    angles = [distance / math.pow(base, 2 * m / DIM) for m in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


class TestTransformerXl(LogitTests):
    name = "transformer_xl"
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}
    places = [PLACES, PLACES[::-1]]
    cases = combine(clamp=(0, 1, 5), base=(10_000.0, 50.0))
    identities = [({}, {"u": 0, "v": 0, "project.weight": 0}, "nope")]
    changes = [{"clamp": 5}, {"base": 500.0}]
    errors = [
        (Case(model_dim=9, heads=3), "model_dim must be even, got 9"),
        ({"clamp": -1}, "clamp must be 0 or more, got -1"),
    ]

    def test_bfloat16_keeps_close_positions_apart(self) -> None:
        zero = torch.zeros(1, HEADS, 3, WIDTH, dtype=torch.bfloat16)
        check_bias_keeps_close_positions_apart(make(), zero, atol=1e-5)

    def logits(self, t: Inputs) -> Tensor:
        """The terms (a) to (d) of the paper."""
        weight = t.scheme.project.weight.view(HEADS, WIDTH, DIM).tolist()
        clamp, base, places = t.option("clamp"), t.option("base"), t.positions.tolist()

        def logit(b: int, h: int, i: int, j: int) -> float:
            distance = places[b][i] - places[b][j]
            if clamp:
                distance = max(-clamp, min(clamp, distance))
            wave = sinusoid(distance, base)
            place = [dot(row, wave) for row in weight[h]]
            query, key = t.q[b, h, i].tolist(), t.k[b, h, j].tolist()
            u, v = t.scheme.u[h, 0].tolist(), t.scheme.v[h, 0].tolist()
            pairs = ((query, key), (query, place), (u, key), (v, place))
            return sum(dot(*pair) for pair in pairs) / math.sqrt(WIDTH)

        return pair_by_pair(t.q, logit)
