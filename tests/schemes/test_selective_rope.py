"""Selective RoPE against angles summed token by token."""

import cmath
import math
from itertools import product
from typing import Any

import pytest
import torch
from schemes.reference import Case, Inputs, LogitTests
from schemes.tools import (
    build,
    dot,
    drawn,
    normal,
    pair_by_pair,
    rotation_by_complex,
    vectors,
)
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.selective_rope import SelectiveRope

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 8, 10
RUN = torch.arange(LENGTH)
SIZES: dict[str, Any] = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}


def make(**options: object) -> SelectiveRope:
    return drawn(build(SelectiveRope, {"base": 100.0, "rank": 3, **options}, **SIZES))


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *vectors(BATCH, HEADS, LENGTH, WIDTH), normal(BATCH, LENGTH, DIM, seed=3)


def said_by(scheme: SelectiveRope, token: Tensor) -> tuple[list[float], list[float]]:
    """Return what a token says before the convolution, and its gates."""
    parts = [part.tolist() for part in token.split(DIM // HEADS)]
    unit = [c / math.sqrt(dot(part, part) + 1e-6) for part in parts for c in part]
    thin = [dot(row, unit) for row in scheme.down.weight.tolist()]
    gates = [1.0] * HEADS
    if scheme.gate is not None:
        weights, biases = scheme.gate.weight.tolist(), scheme.gate.bias.tolist()
        logits = [dot(w, unit) + c for w, c in zip(weights, biases, strict=True)]
        gates = [1 / (1 + math.exp(-z)) for z in logits]
    return [dot(row, thin) for row in scheme.up.weight.tolist()], gates


class TestSelectiveRope(LogitTests):
    name = "selective_rope"
    sizes = SIZES
    by_document = True
    cases = [{"base": 100.0, "rank": 3, "gate": gate} for gate in (False, True)]
    gradients = cases
    identities = [({}, {"taps.weight": 0}, "nope")]
    changes = [{"base": 50.0}, {"rank": 3}, {"gate": True}]
    errors = [
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"base": -1.0}, "base must be greater than 0, got -1"),
        (
            Case(model_dim=10, heads=3, head_dim=4),
            "heads must divide model_dim, got 3 and 10",
        ),
    ]
    half = None

    def logits(self, t: Inputs) -> Tensor:
        """Logits of pairs turned by what the tokens after the key say."""
        taps, length = t.scheme.taps.weight.tolist(), t.q.shape[2]
        turns = torch.zeros(len(t.x), length, HEADS, 3).double()
        for b, row in enumerate(t.x):
            said = [said_by(t.scheme, token) for token in row]
            document = [0] * length if t.segments is None else t.segments[b].tolist()
            for n, h, pair in product(range(length), range(HEADS), range(3)):
                channel, seen = 3 * h + pair, range(max(0, n - 3), n + 1)
                turns[b, n, h, pair] = said[n][1][h] * math.fsum(
                    taps[channel][n - u] * said[u][0][channel]
                    for u in seen
                    if document[u] == document[n]
                )

        def logit(b: int, h: int, i: int, j: int) -> float:
            between = turns[b, min(i, j) + 1 : max(i, j) + 1, h].sum(dim=0).tolist()
            signed = [turn if i >= j else -turn for turn in between]
            found = [turn * 100.0 ** (-pair / 3) for pair, turn in enumerate(signed)]
            factors = [cmath.exp(1j * turn) for turn in found]
            return rotation_by_complex(t.q[b, h, i], t.k[b, h, j], factors, "half")

        return pair_by_pair(t.q, logit)


def test_query_needs_the_call() -> None:
    with pytest.raises(ConfigError, match="selective_rope: needs the call, got none"):
        make().query(inputs()[0], RUN)
