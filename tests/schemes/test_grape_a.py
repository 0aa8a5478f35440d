"""GRAPE-A against the formula, one pair at a time."""

import math

import pytest
import torch
from schemes.tools import (
    build,
    check_gradients,
    close,
    content_plus,
    decoded,
    dot,
    drawn,
    on_paths,
    vectors,
)

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.schemes import create
from posenc_compare.schemes.call import Call, all_pairs
from posenc_compare.schemes.grape_a import GrapeA
from posenc_compare.schemes.shared.slopes import slopes

HEADS, WIDTH = 3, 8
PLACES = [0, 1, 2, 40, 7, 300]


def make(**options: object) -> GrapeA:
    return build(GrapeA, options, model_dim=HEADS * WIDTH, heads=HEADS)


@pytest.mark.parametrize("gate", ["query", "key"])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_the_slow_reference(causal: bool, gate: str) -> None:
    scheme, positions = drawn(make(gate=gate)), torch.tensor(PLACES)
    q, k, v = vectors(2, HEADS, 6, WIDTH)

    def bias(b: int, h: int, i: int, j: int) -> float:
        direction = scheme.direction[h].tolist()
        length = math.sqrt(dot(direction, direction))
        x = q[b, h, i] if gate == "query" else k[b, h, j]
        along = dot(direction, x.tolist()) / length / math.sqrt(WIDTH)
        steep = math.log1p(math.exp(scheme.steepness[h].item())) * slopes(HEADS)[h]
        distance = abs(PLACES[i] - PLACES[j])
        return -distance * steep * math.log1p(math.exp(along))

    expected = content_plus(q, k, bias, causal)
    mask = Mask(causal=causal)
    got = attention_logits(q, k, scheme=scheme, positions=positions, mask=mask)
    close(got, expected, 1e-11)
    for read in on_paths(q, k, v, scheme=scheme, positions=positions, mask=mask):
        close(read, expected.softmax(-1) @ v, 1e-11)


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


def test_a_longer_direction_is_the_same() -> None:
    q, k, _ = vectors(1, HEADS, 6, WIDTH)
    scheme, positions = drawn(make()), torch.tensor(PLACES)
    here = attention_logits(q, k, scheme=scheme, positions=positions)
    scheme.direction.mul_(7)
    there = attention_logits(q, k, scheme=scheme, positions=positions)
    close(there, here, 1e-11)


def test_decoding_by_rows_of_positions() -> None:
    q, k, v = vectors(2, HEADS, 6, WIDTH)
    scheme = drawn(make(gate="key"))
    positions = torch.tensor([PLACES, PLACES[::-1]])
    steps = [3, 1, 2]
    got = decoded(q, k, v, steps, scheme=scheme, positions=positions)
    logits = attention_logits(q, k, scheme=scheme, positions=positions)
    close(got, logits.softmax(-1) @ v, 1e-11)


def test_starts_as_released() -> None:
    heads = 64
    scheme = build(GrapeA, model_dim=heads * 256, heads=heads)
    softplus = torch.nn.functional.softplus(scheme.steepness)
    torch.testing.assert_close(softplus, torch.ones_like(softplus), rtol=1e-6, atol=0)
    assert scheme.direction.std().item() == pytest.approx(1 / 16, rel=0.02)


@pytest.mark.parametrize("gate", ["query", "key"])
def test_gradient(gate: str) -> None:
    q, k, v = vectors(1, HEADS, 5, WIDTH)
    scheme = drawn(make(gate=gate)).requires_grad_()
    check_gradients(scheme, q, k, v, torch.arange(5))


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
