"""p-RoPE against complex numbers, one pair at a time."""

import cmath
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create

PLACES = [0, 1, 2, 100, 500, -4]


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def make(head_dim: int = 16, name: str = "p_rope", **options: Any) -> Scheme:
    return create(name, options=options, model_dim=2 * head_dim, heads=2)


def slow_logit(
    q: Tensor, k: Tensor, distance: int, base: float, layout: str, kept: int
) -> float:
    width, total = len(q), 0.0
    for m in range(width // 2):
        two = (2 * m, 2 * m + 1) if layout == "adjacent" else (m, m + width // 2)
        one, other = (complex(*(x[c].item() for c in two)) for x in (q, k))
        speed = base ** (-2 * m / width) if m < kept else 0.0
        total += (one * other.conjugate() * cmath.exp(1j * distance * speed)).real
    return total / math.sqrt(width)


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("base", [10_000.0, 100.0])
@pytest.mark.parametrize(
    ("head_dim", "fraction", "kept"),
    [(16, 0.75, 6), (16, 0.7, 5), (16, 0.25, 2), (6, 0.5, 1), (2, 1.0, 1)],
)
def test_equals_the_slow_reference(
    head_dim: int, fraction: float, kept: int, base: float, layout: str
) -> None:
    q, k = normal(1, 2, 6, head_dim), normal(1, 2, 6, head_dim, seed=1)
    scheme = make(head_dim, base=base, layout=layout, fraction=fraction)
    got = attention_logits(
        q, k, scheme=scheme, positions=torch.tensor(PLACES), mask=Mask(causal=False)
    )
    for h in range(2):
        for i in range(6):
            for j in range(6):
                distance = PLACES[i] - PLACES[j]
                expected = slow_logit(
                    q[0, h, i], k[0, h, j], distance, base, layout, kept
                )
                assert got[0, h, i, j].item() == pytest.approx(expected, abs=1e-12)


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
    angles = make().angles(torch.tensor([1, 2]))
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
    positions = torch.tensor([15962, 15966, 15968])  # the first two collide
    x = normal(1, 2, 1, 16).bfloat16().expand(1, 2, 3, 16)
    got, wide = make().query(x, positions), make().query(x.double(), positions)
    assert got.dtype == torch.bfloat16
    assert got[0, 0].unique(dim=0).shape[0] == 3
    torch.testing.assert_close(got.double(), wide, rtol=2**-8, atol=1e-6)


def test_odd_head() -> None:
    with pytest.raises(ConfigError, match="p_rope: head_dim must be even, got 7"):
        make(7)


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_fraction_out_of_range(fraction: float) -> None:
    with pytest.raises(
        ConfigError, match=rf"p_rope: fraction must be in \[0, 1\], got {fraction}"
    ):
        make(fraction=fraction)
