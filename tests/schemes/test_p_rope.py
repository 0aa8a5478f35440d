"""p-RoPE against complex numbers, one pair at a time."""

import cmath
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


def make(head_dim: int = 16, name: str = "p_rope", **options: Any) -> Scheme:
    return create(name, options=options, model_dim=2 * head_dim, heads=2)


def slow_factors(distance: int, width: int, base: float, kept: int) -> list[complex]:
    speeds = [base ** (-2 * m / width) for m in range(width // 2)]
    return [
        cmath.exp(1j * distance * (speed if m < kept else 0.0))
        for m, speed in enumerate(speeds)
    ]


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("base", [10_000.0, 100.0])
@pytest.mark.parametrize(
    ("head_dim", "fraction", "kept"),
    [(16, 0.75, 6), (16, 0.7, 5), (16, 0.25, 2), (6, 0.5, 1), (2, 1.0, 1)],
)
def test_equals_the_slow_reference(
    head_dim: int, fraction: float, kept: int, base: float, layout: str
) -> None:
    q, k, _ = vectors(1, 2, 6, head_dim)
    scheme = make(head_dim, base=base, layout=layout, fraction=fraction)
    got = attention_logits(
        q, k, scheme=scheme, positions=torch.tensor(PLACES), mask=Mask(causal=False)
    )

    def logit(b: int, h: int, i: int, j: int) -> float:
        factors = slow_factors(PLACES[i] - PLACES[j], head_dim, base, kept)
        return rotation_by_complex(q[b, h, i], k[b, h, j], factors, layout)

    close(got, pair_by_pair(q, logit))


@pytest.mark.parametrize("layout", ["adjacent", "half"])
def test_all_frequencies_are_rope_and_none_are_no_positions(layout: str) -> None:
    x, positions = normal(1, 2, 6, 16), torch.tensor(PLACES)
    rope = make(name="rope", layout=layout)
    whole = make(layout=layout, fraction=1.0)
    assert torch.equal(whole.query(x, positions), rope.query(x, positions))
    nothing = make(layout=layout, fraction=0.0)
    assert torch.equal(nothing.key(x, positions), x)


def test_is_not_partial_rope() -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([1, 10, 100])
    kept = make(fraction=0.5).query(x, positions)
    partial = make(name="rope", fraction=0.5).query(x, positions)
    # The same channels turn in this layout, by other angles.
    assert torch.equal(kept[..., 8:], partial[..., 8:])
    assert (kept - partial).abs().max() > 0.1


def test_default_is_the_best_of_the_paper() -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([1, 10, 100])
    named = make(base=10_000.0, layout="adjacent", fraction=0.75)
    assert torch.equal(make().query(x, positions), named.query(x, positions))
    angles = rotation_angles(make(), torch.tensor([1, 2]))
    assert angles is not None
    assert torch.equal(angles[:, 6:], torch.zeros(2, 2, dtype=torch.float64))
    assert (angles[:, :6] > 0).all()


@pytest.mark.parametrize(
    "options", [{"base": 9_000.0}, {"layout": "half"}, {"fraction": 0.5}]
)
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([5, 50, 400])
    change = make(**options).query(x, positions) - make().query(x, positions)
    assert change.abs().max() > 1e-4


def test_close_positions_stay_apart_in_bfloat16() -> None:
    check_rotation_keeps_close_positions_apart(make().query)


def test_odd_head() -> None:
    with pytest.raises(ConfigError, match="p_rope: head_dim must be even, got 7"):
        make(7)


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_fraction_out_of_range(fraction: float) -> None:
    with pytest.raises(
        ConfigError, match=rf"p_rope: fraction must be in \[0, 1\], got {fraction}"
    ):
        make(fraction=fraction)
