"""HoPE against complex numbers, one pair at a time."""

import cmath
import math
from typing import Any

import pytest
import torch
from schemes.tools import (
    check_rotation_keeps_close_positions_apart,
    close,
    normal,
    pair_by_pair,
    rotation_by_complex,
    vectors,
)

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.shared.rotation import rotation_angles

PLACES = [0, 1, 2, 100, 500, -4]


def make(
    head_dim: int = 16, name: str = "hope", trained: int = 512, **options: Any
) -> Scheme:
    return create(
        name, options=options, model_dim=2 * head_dim, heads=2, length=trained
    )


def slow_factors(distance: int, width: int, base: float, length: int) -> list[complex]:
    periods = [2 * math.pi * base ** (2 * m / width) for m in range(width // 2)]
    turns = [distance / period if period <= length else 0.0 for period in periods]
    return [cmath.exp(2j * math.pi * turn) for turn in turns]


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("base", [10_000.0, 100.0])
@pytest.mark.parametrize("length", [7, 62, 63, 512, 10**6])
def test_equals_the_slow_reference(length: int, base: float, layout: str) -> None:
    q, k, _ = vectors(1, 2, 6, 16)
    scheme = make(base=base, layout=layout, length=length)
    got = attention_logits(
        q, k, scheme=scheme, positions=torch.tensor(PLACES), mask=Mask(causal=False)
    )

    def logit(b: int, h: int, i: int, j: int) -> float:
        factors = slow_factors(PLACES[i] - PLACES[j], 16, base, length)
        return rotation_by_complex(q[b, h, i], k[b, h, j], factors, layout)

    close(got, pair_by_pair(q, logit))


def test_a_pair_counts_from_one_whole_turn_on() -> None:
    # In base 10 000 and 8 pairs, pair 2 has a period of 62.8 positions.
    for length, kept in ((62, 2), (63, 3)):
        angles = rotation_angles(make(trained=length), torch.tensor([1]))
        assert angles is not None
        assert int((angles > 0).sum()) == kept


@pytest.mark.parametrize("layout", ["adjacent", "half"])
def test_is_p_rope_with_a_fraction_from_the_length(layout: str) -> None:
    x, positions = normal(1, 2, 6, 16), torch.tensor(PLACES)
    # 4 of 8 pairs have a period of at most 512.
    p_rope = make(name="p_rope", layout=layout, fraction=0.5)
    hope = make(layout=layout)
    assert torch.equal(hope.query(x, positions), p_rope.query(x, positions))
    rope = make(name="rope", layout=layout)
    hope = make(layout=layout, length=10**6)
    assert torch.equal(hope.key(x, positions), rope.key(x, positions))


@pytest.mark.parametrize(
    "options", [{"base": 9_000.0}, {"layout": "half"}, {"length": 100}]
)
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([5, 50, 400])
    change = make(**options).query(x, positions) - make().query(x, positions)
    assert change.abs().max() > 1e-4


def test_close_positions_stay_apart_in_bfloat16() -> None:
    check_rotation_keeps_close_positions_apart(make().query)


def test_odd_head() -> None:
    with pytest.raises(ConfigError, match="hope: head_dim must be even, got 7"):
        make(7)


@pytest.mark.parametrize("options", [{"length": 6}, {"length": -1}, {"trained": 6}])
def test_no_pair_would_turn(options: dict[str, Any]) -> None:
    got = next(iter(options.values()))
    with pytest.raises(
        ConfigError, match=f"hope: length must be at least 7, got {got}"
    ):
        make(**options)
