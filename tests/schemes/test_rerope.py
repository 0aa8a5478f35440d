"""ReRoPE against complex numbers, one pair of channels at a time."""

import cmath
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create

PLACES = [0, 1, 2, 5, 9, 10, 11, 40]


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def make(length: int = 64, **options: Any) -> Scheme:
    return create("rerope", options=options, model_dim=16, heads=2, length=length)


def slow(
    q: list[float],
    k: list[float],
    place: int,
    past: int,
    window: int,
    leak: float,
    base: float,
    layout: str,
    length: int,
) -> float:
    """sum of Re(q conj(k) exp(i r w)), r held at the window."""
    relative = past if past < window else window + leak * (past - window)
    total, pairs = 0.0, len(q) // 2
    for m in range(pairs):
        a, b = (2 * m, 2 * m + 1) if layout == "adjacent" else (m, m + pairs)
        turn = cmath.exp(1j * relative * base ** (-m / pairs))
        total += (complex(q[a], q[b]) * complex(k[a], k[b]).conjugate() * turn).real
    growth = max(1.0, math.log(place + 1) / math.log(length)) if length else 1.0
    return total * growth / math.sqrt(len(q))


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("stretched", [False, True])
@pytest.mark.parametrize(("window", "leak"), [(1, 0.0), (3, 0.0), (3, 0.25), (9, 0.5)])
def test_equals_the_slow_reference(
    window: int, leak: float, stretched: bool, layout: str
) -> None:
    q, k = normal(2, 2, 8, 8), normal(2, 2, 8, 8, seed=1)
    scheme = make(
        8, window=window, leak=leak, stretched=stretched, layout=layout, base=100.0
    )
    got = attention_logits(q, k, scheme=scheme, positions=torch.tensor(PLACES))
    length = 8 if stretched else 0
    for b in range(2):
        for h in range(2):
            for i in range(8):
                for j in range(i + 1):
                    expected = slow(
                        q[b, h, i].tolist(),
                        k[b, h, j].tolist(),
                        PLACES[i],
                        PLACES[i] - PLACES[j],
                        window,
                        leak,
                        100.0,
                        layout,
                        length,
                    )
                    assert got[b, h, i, j].item() == pytest.approx(expected, abs=1e-12)


def test_a_window_as_long_as_the_text_is_rope() -> None:
    q, k = normal(2, 2, 8, 8), normal(2, 2, 8, 8, seed=1)
    rope = create("rope", model_dim=16, heads=2)
    positions = torch.tensor(PLACES)
    expected = attention_logits(q, k, scheme=rope, positions=positions)
    got = attention_logits(q, k, scheme=make(window=41), positions=positions)
    assert torch.equal(got, expected)
    leaky = attention_logits(q, k, scheme=make(window=2, leak=1.0), positions=positions)
    torch.testing.assert_close(leaky, expected, rtol=0, atol=1e-12)


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
    torch.testing.assert_close(last, whole[:, :, 6:], rtol=0, atol=1e-12)
    torch.testing.assert_close(
        whole[1:],
        attention(q[1:], q[1:], q[1:], scheme=scheme, positions=ids[0]),
        rtol=0,
        atol=1e-12,
    )


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
    q = normal(1, 2, 3, 8)
    with pytest.raises(ConfigError, match="rerope: needs a causal mask"):
        attention(
            q, q, q, scheme=make(), positions=torch.arange(3), mask=Mask(causal=False)
        )
