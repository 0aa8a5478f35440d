"""HoPE against complex numbers, one pair at a time."""

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


def make(
    head_dim: int = 16, name: str = "hope", trained: int = 512, **options: Any
) -> Scheme:
    return create(
        name, options=options, model_dim=2 * head_dim, heads=2, length=trained
    )


def slow_logit(
    q: Tensor, k: Tensor, distance: int, base: float, layout: str, length: int
) -> float:
    width, total = len(q), 0.0
    for m in range(width // 2):
        two = (2 * m, 2 * m + 1) if layout == "adjacent" else (m, m + width // 2)
        one, other = (complex(*(x[c].item() for c in two)) for x in (q, k))
        period = 2 * math.pi * base ** (2 * m / width)
        angle = 2 * math.pi * distance / period if period <= length else 0.0
        total += (one * other.conjugate() * cmath.exp(1j * angle)).real
    return total / math.sqrt(width)


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("base", [10_000.0, 100.0])
@pytest.mark.parametrize("length", [7, 62, 63, 512, 10**6])
def test_equals_the_slow_reference(length: int, base: float, layout: str) -> None:
    q, k = normal(1, 2, 6, 16), normal(1, 2, 6, 16, seed=1)
    scheme = make(base=base, layout=layout, length=length)
    got = attention_logits(
        q, k, scheme=scheme, positions=torch.tensor(PLACES), mask=Mask(causal=False)
    )
    for h in range(2):
        for i in range(6):
            for j in range(6):
                distance = PLACES[i] - PLACES[j]
                expected = slow_logit(
                    q[0, h, i], k[0, h, j], distance, base, layout, length
                )
                assert got[0, h, i, j].item() == pytest.approx(expected, abs=1e-12)


def test_a_pair_counts_from_one_whole_turn_on() -> None:
    # In base 10 000 and 8 pairs, pair 2 has a period of 62.8 positions.
    for length, kept in ((62, 2), (63, 3)):
        angles = make(trained=length).angles(torch.tensor([1]))
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
    positions = torch.tensor([15962, 15966, 15968])  # the first two collide
    x = normal(1, 2, 1, 16).bfloat16().expand(1, 2, 3, 16)
    got, wide = make().query(x, positions), make().query(x.double(), positions)
    assert got.dtype == torch.bfloat16
    assert got[0, 0].unique(dim=0).shape[0] == 3
    torch.testing.assert_close(got.double(), wide, rtol=2**-8, atol=1e-6)


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
