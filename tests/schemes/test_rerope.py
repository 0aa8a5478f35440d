"""ReRoPE against complex numbers, one pair of channels at a time."""

import cmath
import math
from typing import Any

import pytest
import torch
from schemes.tools import (
    check_causal_mask_is_needed,
    close,
    normal,
    pair_by_pair,
    rotation_by_complex,
    vectors,
)

from posenc_compare.attention import attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create

PLACES = [0, 1, 2, 5, 9, 10, 11, 40]


def make(length: int = 64, **options: Any) -> Scheme:
    return create("rerope", options=options, model_dim=16, heads=2, length=length)


def slow_factors(past: int, window: int, leak: float) -> list[complex]:
    """exp(i r w) with the distance r held at the window."""
    held = past if past < window else window + leak * (past - window)
    return [cmath.exp(1j * held * 100.0 ** (-m / 4)) for m in range(4)]


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("stretched", [False, True])
@pytest.mark.parametrize(("window", "leak"), [(1, 0.0), (3, 0.0), (3, 0.25), (9, 0.5)])
def test_equals_the_slow_reference(
    window: int, leak: float, stretched: bool, layout: str
) -> None:
    q, k, _ = vectors(2, 2, 8, 8)
    scheme = make(
        8, window=window, leak=leak, stretched=stretched, layout=layout, base=100.0
    )
    got = attention_logits(q, k, scheme=scheme, positions=torch.tensor(PLACES))

    def logit(b: int, h: int, i: int, j: int) -> float:
        growth = max(1.0, math.log(PLACES[i] + 1) / math.log(8)) if stretched else 1.0
        factors = slow_factors(PLACES[i] - PLACES[j], window, leak)
        return growth * rotation_by_complex(q[b, h, i], k[b, h, j], factors, layout)

    close(got, pair_by_pair(q, logit, causal=True))


def test_a_window_as_long_as_the_text_is_rope() -> None:
    q, k, _ = vectors(2, 2, 8, 8)
    rope = create("rope", model_dim=16, heads=2)
    positions = torch.tensor(PLACES)
    expected = attention_logits(q, k, scheme=rope, positions=positions)
    got = attention_logits(q, k, scheme=make(window=41), positions=positions)
    assert torch.equal(got, expected)
    leaky = attention_logits(q, k, scheme=make(window=2, leak=1.0), positions=positions)
    close(leaky, expected)


def test_far_keys_are_all_equally_far() -> None:
    q = normal(1, 2, 1, 8).expand(1, 2, 30, 8)
    k = normal(1, 2, 1, 8, seed=1).expand(1, 2, 30, 8)
    rows = attention_logits(q, k, scheme=make(window=4), positions=torch.arange(30))
    last = rows[0, :, -1]
    torch.testing.assert_close(last[:, :26], last[:, :1].expand(-1, 26))
    assert (last[:, 26:].diff(dim=-1).abs() > 1e-4).all()


def test_the_window_is_a_quarter_of_the_length_unless_given() -> None:
    q, positions = normal(1, 2, 40, 8), torch.arange(40)
    for length, window in ((64, 16), (100, 25), (2, 1)):
        got = attention(q, q, q, scheme=make(length), positions=positions)
        named = attention(q, q, q, scheme=make(window=window), positions=positions)
        assert torch.equal(got, named)


def test_decoding_and_rows_of_their_own() -> None:
    q, scheme = normal(2, 2, 8, 8), make(window=3, leak=0.5)
    ids = torch.tensor([PLACES, [p + 7 for p in PLACES]])
    whole = attention(q, q, q, scheme=scheme, positions=ids)
    last = attention(
        q[:, :, 6:], q, q, scheme=scheme, positions=ids[:, 6:], key_positions=ids
    )
    close(last, whole[:, :, 6:])
    close(whole[1:], attention(q[1:], q[1:], q[1:], scheme=scheme, positions=ids[0]))


@pytest.mark.parametrize(
    "options",
    [
        {"base": 9_000.0},
        {"layout": "half"},
        {"window": 5},
        {"leak": 0.1},
        {"stretched": True},
    ],
)
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    q, positions = normal(1, 2, 40, 8), torch.arange(40)
    got = attention(q, q, q, scheme=make(16, **options), positions=positions)
    plain = attention(q, q, q, scheme=make(16), positions=positions)
    assert (got - plain).abs().max() > 1e-4


def test_stretched_queries_know_where_they_stand() -> None:
    assert make().relative
    assert not make(stretched=True).relative
    q = normal(1, 2, 3, 8)
    got = make(stretched=True).query(q, torch.tensor([-7, -1, 0]))
    assert torch.equal(got, make().query(q, torch.tensor([-7, -1, 0])))


def test_close_positions_in_bfloat16() -> None:
    q = normal(1, 2, 1, 8).bfloat16().expand(1, 2, 2, 8)
    scheme = make(window=100)
    rows = []
    for places in ([15_950, 15_962], [15_950, 15_966]):
        rows.append(
            attention_logits(q, q, scheme=scheme, positions=torch.tensor(places))
        )
    assert (rows[0] - rows[1]).nan_to_num()[..., 1, 0].abs().max() > 1e-2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": -1}, "rerope: window must be at least 0, got -1"),
        ({"leak": 1.5}, "rerope: leak must be from 0 to 1, got 1.5"),
        ({"leak": -0.1}, "rerope: leak must be from 0 to 1, got -0.1"),
        ({"layout": "pairs"}, "layout must be adjacent or half"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**options)


def test_stretching_needs_a_length() -> None:
    with pytest.raises(ConfigError, match="rerope: stretched needs a length of at"):
        make(1, stretched=True)


def test_it_needs_a_causal_mask() -> None:
    check_causal_mask_is_needed(make(), 8)
