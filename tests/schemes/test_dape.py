"""DAPE against its network written out, one pair of tokens at a time."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from schemes.reference import Inputs, LogitTests
from schemes.tools import (
    build,
    close,
    dot,
    drawn,
    normal,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Call, Facts, Geometry, Scheme, Variant
from posenc_compare.schemes.dape import ROWS, Dape
from posenc_compare.schemes.scheme import PairBias

BATCH, HEADS, WIDTH, LENGTH = 2, 3, 6, 7
SHAPE = (BATCH, HEADS, LENGTH, WIDTH)
Bias = Callable[[int, int, int, int], float]
PLACES = [0, 1, 3, 9, 4, 5, 30]


def make(**options: Any) -> Dape:
    return drawn(build(Dape, options, model_dim=HEADS * WIDTH, heads=HEADS))


def slow(scheme: Dape, q: Tensor, k: Tensor, bias: Bias, scale: float) -> Tensor:
    """A + B + f(A, B), f a layer, LeakyReLU with slope 0.01, and a layer."""
    first, second = scheme.hidden, scheme.out
    logits = torch.zeros(*q.shape[:3], q.shape[2]).double()
    for b, i, j in product(range(len(q)), *[range(q.shape[2])] * 2):
        a = [float(q[b, h, i] @ k[b, h, j]) * scale for h in range(HEADS)]
        c = [bias(b, h, i, j) for h in range(HEADS)]
        units = []
        for row, start in zip(first.weight.tolist(), first.bias, strict=True):
            z = float(start) + dot(row, a + c)
            units.append(z if z > 0 else 0.01 * z)
        for h in range(HEADS):
            added = dot(second.weight[h].tolist(), units) + float(second.bias[h])
            logits[b, h, i, j] = a[h] + c[h] + added
    return logits


class TestDape(LogitTests):
    name = "dape"
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS}
    places = [PLACES, PLACES[::-1]]
    half_atol = 1e-4
    cases = [{}, {"base": "t5_bias", "width": 5}]
    gradients = [{"base": "t5_bias", "width": 4}]
    identities = [
        ({"base": base}, {"out.weight": 0, "out.bias": 0}, base)
        for base in ("alibi", "sandwich")
    ]
    changes = [{"base": "t5_bias"}, {"width": 7}]
    errors = [
        *(
            (
                {"base": base},
                f"base must be a scheme that adds a bias and .* got '{base}'",
            )
            for base in ("rope", "nope", "learned", "dape", "cope", "fox")
        ),
        ({"base": "alibie"}, "base: unknown scheme 'alibie'; did you mean alibi"),
        ({"width": 0}, "width must be at least 1, got 0"),
    ]

    def logits(self, t: Inputs) -> Tensor:
        """Over ALiBi, or over T5, which has buckets and does not divide products."""
        edges = [*range(17), 19, 21, 24, 27, 31]

        def bias(b: int, h: int, i: int, j: int) -> float:
            distance = int(t.positions[b, i] - t.positions[b, j])
            if "base" not in t.case.options:
                return -abs(distance) * (1 / 16, 1 / 256, 1 / 4)[h]
            bucket = sum(edge <= max(distance, 0) for edge in edges) - 1
            return t.scheme.base.get_parameter("table")[bucket, h].item()

        scale = 1.0 if "base" in t.case.options else WIDTH**-0.5
        return slow(t.scheme, t.q, t.k, bias, scale)


def test_the_gain_of_queries_is_that_of_the_base() -> None:
    assert make(base="t5_bias").query_init_gain(WIDTH) == WIDTH**-0.5


class Pairs(Scheme):
    """A base with a bias of the offset and one of both positions."""

    facts = Facts(causal_only=True)

    def offset_bias(self, offsets: Tensor) -> Tensor:
        return offsets.double().expand(HEADS, -1) / 7

    def pair_bias(self, call: Call) -> PairBias:
        return lambda b, h, i, j: (
            (h + 1)
            * (call.q_positions[0, i] + 2 * call.k_positions[0, j]).double()
            / 10
        )


def test_a_base_with_a_pair_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Variant, "build", lambda self, geometry: Pairs(geometry))
    geometry = Geometry(model_dim=HEADS * WIDTH, heads=HEADS)
    scheme = Dape(geometry, base=Variant("nope")).double().requires_grad_(False)
    places = torch.tensor(PLACES).double()
    q, k, _ = vectors(*SHAPE)
    offsets, pairs = places - places[:, None], (places[:, None] + 2 * places) / 10

    def bias(b: int, h: int, i: int, j: int) -> float:
        return float(offsets[i, j] / 7 + (h + 1) * pairs[i, j])

    expected = slow(scheme, q, k, bias, WIDTH**-0.5)
    got = attention_logits(q, k, scheme=scheme, positions=places.long())
    seen = got.isfinite()
    close(got[seen], expected[seen])
    with pytest.raises(ConfigError, match="dape: needs a causal mask"):
        attention_logits(
            q, k, scheme=scheme, positions=places.long(), mask=Mask(causal=False)
        )


def test_many_queries_go_through_the_network_in_parts() -> None:
    length = 2 * ROWS + 3
    q, k = (normal(1, HEADS, length, WIDTH, seed=seed) for seed in (1, 2))
    scheme, positions = make(), torch.arange(length)
    whole = attention_logits(q, k, scheme=scheme, positions=positions)
    for start in (0, 300, length - 5):
        part = attention_logits(
            q[:, :, start : start + 5],
            k[:, :, start : start + 5],
            scheme=scheme,
            positions=positions[start : start + 5],
        )
        rows = whole[:, :, start : start + 5, start : start + 5]
        close(part, rows)


def test_facts_are_those_of_the_base() -> None:
    fire = make(base="fire")
    assert fire.facts.causal_only
    assert not fire.facts.relative
    kerple = make(base="kerple_log")
    assert kerple.facts.relative
    assert kerple.facts.known_faults.keys() == {"C15"}
    assert not make().facts.known_faults
