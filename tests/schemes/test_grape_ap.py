"""GRAPE-AP against the sum over the path, one pair of tokens at a time."""

import math
from itertools import product

import pytest
import torch
from schemes.reference import Inputs, LogitTests
from schemes.tools import (
    build,
    dot,
)
from torch import Tensor

from posenc_compare.schemes.grape_ap import GrapeAp
from posenc_compare.schemes.shared.slopes import slopes

HEADS, DIM, LENGTH, PATH = 3, 12, 7, 4
PLACES = [3, 4, 5, 9, 10, 30, 31]


def turned(vector: list[float], angle: int) -> list[float]:
    """Turn channel c and c + 2 of four, every pair by the same angle."""
    cosine, sine = math.cos(angle), math.sin(angle)
    first = [vector[c] * cosine - vector[c + 2] * sine for c in range(2)]
    return first + [vector[c] * sine + vector[c + 2] * cosine for c in range(2)]


class TestGrapeAp(LogitTests):
    name = "grape_ap"
    causal = True
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": 6}
    places = [PLACES, [0, 1, 2, 3, 4, 50, 51]]
    cases = [{"turned": turned, "width": PATH} for turned in ("tokens", "both")]
    gradients = cases
    changes = [{"width": 2}, {"turned": "both"}]
    errors = [
        ({"width": width}, f"width must be even and at least 2, got {width}")
        for width in (0, 3)
    ]
    half = None

    def logits(self, t: Inputs) -> Tensor:
        """`q k / sqrt(d)` and the shares of all tokens after the key."""
        weight, places = t.scheme.path.weight.tolist(), t.positions.tolist()
        logits = torch.full((*t.q.shape[:3], LENGTH), -math.inf).double()
        for b, h, i in product(*map(range, t.q.shape[:3])):
            made = [[dot(row, token.tolist()) for row in weight] for token in t.x[b]]
            p = [vector[PATH * h : PATH * (h + 1)] for vector in made]
            both = t.option("turned") == "both"
            asked, taken = turned(p[i], places[b][i]) if both else p[i], 0.0
            for j in range(i, -1, -1):
                content = dot(t.q[b, h, i].tolist(), t.k[b, h, j].tolist())
                logits[b, h, i, j] = content / math.sqrt(6) + slopes(HEADS)[h] * taken
                size = math.sqrt(dot(p[j], p[j]) / PATH)
                unit = turned([c / size for c in p[j]], places[b][j])
                taken -= math.log1p(math.exp(-dot(asked, unit) / PATH))
        return logits


def test_starts_as_released() -> None:
    scheme = build(GrapeAp, model_dim=1024, heads=16)
    assert scheme.path.weight.shape == (128, 1024)
    assert scheme.path.weight.std().item() == pytest.approx(0.5 / 32, rel=0.02)
