"""PoPE against the sum over channels, one cosine at a time."""

import math
from typing import Any

import pytest
import torch
from schemes.reference import Case, Inputs, LogitTests
from schemes.tools import build, close, normal, pair_by_pair, vectors
from torch import Tensor

from posenc_compare.attention import attention, attention_logits
from posenc_compare.schemes.pope import Pope

PLACES = [3, 0, 7, 100, 4096, 8]


def make(heads: int = 2, **options: Any) -> Pope:
    return build(Pope, options, model_dim=8 * heads, heads=heads)


def trained(seed: int = 5, **options: Any) -> Pope:
    scheme = make(**options)
    with torch.no_grad():  # some phases beyond both ends of the range
        scheme.phase.copy_(-3 + 4 * normal(*scheme.phase.shape, seed=seed))
    assert (scheme.phase > 0).any()
    assert (scheme.phase < -2 * math.pi).any()
    return scheme


def slow(
    q: list[float], k: list[float], ahead: int, phase: list[float], base: float
) -> float:
    total = 0.0
    for c, (a, b, turn) in enumerate(zip(q, k, phase, strict=True)):
        held = min(0.0, max(-2 * math.pi, turn))
        angle = ahead * base ** (-c / len(q)) + held
        total += math.log1p(math.exp(a)) * math.log1p(math.exp(b)) * math.cos(angle)
    return total / math.sqrt(len(q))


class TestPope(LogitTests):
    name = "pope"
    sizes = {"model_dim": 16, "heads": 2}
    places = [PLACES, [0, 1, 2, 3, 50, 7]]
    atol = 1e-11
    cases = [{}, {"base": 100.0}]
    changes = [{"base": 9_000.0}, {"start": "uniform"}]
    half = None

    def trained(self, case: Case) -> Pope:
        return trained(**case.options).requires_grad_(False)

    def logits(self, t: Inputs) -> Tensor:
        places = t.positions.tolist()

        def logit(b: int, h: int, i: int, j: int) -> float:
            query, key = t.q[b, h, i].tolist(), t.k[b, h, j].tolist()
            phase, ahead = t.scheme.phase[h, 0].tolist(), places[b][j] - places[b][i]
            return slow(query, key, ahead, phase, t.option("base"))

        return pair_by_pair(t.q, logit)


def test_phases_at_zero_can_still_move() -> None:
    scheme, q = make(), normal(1, 2, 6, 8)
    attention(
        q, q, q, scheme=scheme, positions=torch.arange(6)
    ).square().sum().backward()
    assert scheme.phase.grad is not None
    assert (scheme.phase.grad != 0).all()


def test_close_positions_in_bfloat16() -> None:
    q = normal(1, 2, 1, 8).bfloat16().expand(1, 2, 2, 8)
    scheme = trained().bfloat16()
    for places in ([15_950, 15_962], [15_950, 15_966]):
        ids = torch.tensor(places)
        got = attention_logits(q, q, scheme=scheme, positions=ids)[0, :, 1, 0]
        for h in range(2):
            row = q[0, h, 0].tolist()
            phase = scheme.phase[h, 0].tolist()
            expected = slow(row, row, places[0] - places[1], phase, 10_000.0)
            # The phase is clamped in bfloat16, to -2 pi rounded.
            assert got[h].item() == pytest.approx(expected, abs=0.02)


def test_the_fused_kernel_serves_it_with_channels_of_zeros_for_values() -> None:
    q, k, v = (x.float() for x in vectors(2, 2, 40, 8))
    scheme, positions = trained().float(), torch.arange(40)
    given = {"scheme": scheme, "positions": positions}
    got, expected = (
        attention(q, k, v, **given, path=path) for path in ("fused", "plain")
    )
    assert got.shape == v.shape
    close(got.double(), expected.double(), 1e-6)


def test_the_sign_of_a_channel_is_no_angle() -> None:
    # Equal content at all places: without phases, the nearest key is the best.
    q = normal(1, 2, 1, 8).expand(1, 2, 30, 8)
    rows = attention_logits(q, q, scheme=make(), positions=torch.arange(30))
    assert (rows[0, :, -1].argmax(dim=-1) == 29).all()
