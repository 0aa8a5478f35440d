"""Trained frequencies against complex numbers, one pair at a time."""

import cmath
import math

import pytest
import torch
from schemes.tools import (
    build,
    check_gradients,
    check_rotation_keeps_close_positions_apart,
    close,
    on_paths,
    pair_by_pair,
    perturbed,
    rotation_by_complex,
    vectors,
)

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.rope_learned import RopeLearned

HEADS, WIDTH = 3, 8
PLACES = [0, 1, 2, 100, 500, -4]


def make(noise: float = 0.3, **options: object) -> RopeLearned:
    scheme = build(RopeLearned, options, model_dim=HEADS * WIDTH, heads=HEADS)
    return perturbed(scheme, noise)


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("temperature", [False, True])
@pytest.mark.parametrize("by", ["layer", "head"])
def test_equals_the_slow_reference(by: str, temperature: bool, layout: str) -> None:
    q, k, v = vectors(2, HEADS, 6, WIDTH)
    scheme = make(by=by, temperature=temperature, layout=layout).requires_grad_(False)
    logs = scheme.frequency if by == "head" else scheme.frequency.expand(HEADS, -1)

    def logit(b: int, h: int, i: int, j: int) -> float:
        distance = PLACES[i] - PLACES[j]
        speeds = [math.exp(f) for f in logs[h].tolist()]
        factors = [cmath.exp(1j * distance * speed) for speed in speeds]
        warmth = 0.0 if scheme.temperature is None else scheme.temperature[h].item()
        plain = rotation_by_complex(q[b, h, i], k[b, h, j], factors, layout)
        return math.exp(warmth) * plain

    call = {"scheme": scheme, "positions": torch.tensor(PLACES)}
    expected, mask = pair_by_pair(q, logit), Mask(causal=False)
    close(attention_logits(q, k, mask=mask, **call), expected, 1e-11)
    for read in on_paths(q, k, v, mask=mask, **call):
        close(read, expected.softmax(-1) @ v, 1e-11)


@pytest.mark.parametrize("by", ["layer", "head"])
def test_starts_as_rope(by: str) -> None:
    q, *_ = vectors(2, HEADS, 6, WIDTH)
    rope = create("rope", model_dim=HEADS * WIDTH, heads=HEADS)
    got = make(noise=0, by=by, temperature=True).query(q, torch.arange(6))
    # Logarithms of the frequencies are kept in float32.
    close(got, rope.query(q, torch.arange(6)), 1e-5)


def test_parameters() -> None:
    sizes = {
        (by, temperature): sum(
            p.numel() for p in make(by=by, temperature=temperature).parameters()
        )
        for by in ("layer", "head")
        for temperature in (False, True)
    }
    assert list(sizes.values()) == [4, 7, 12, 15]


@pytest.mark.parametrize("by", ["layer", "head"])
def test_gradient(by: str) -> None:
    q, k, v = vectors(1, HEADS, 4, WIDTH)
    scheme = make(by=by, temperature=True)
    check_gradients(scheme, q, k, v, torch.tensor([0, 3, 4, 9]))


def test_close_positions_stay_apart_in_bfloat16() -> None:
    scheme = create("rope_learned", model_dim=32, heads=2).requires_grad_(False)
    check_rotation_keeps_close_positions_apart(scheme.query)


def test_odd_head() -> None:
    with pytest.raises(ConfigError, match="rope_learned: head_dim must be even, got 7"):
        create("rope_learned", model_dim=7, heads=1)
