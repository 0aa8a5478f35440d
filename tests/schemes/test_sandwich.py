"""Sandwich against loops over cosines."""

import math
from typing import Any

import pytest
import torch
from schemes.tools import close, content_plus, normal, vectors
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create


def make(heads: int = 3, **options: float | str) -> Scheme:
    return create("sandwich", options=options, model_dim=8 * heads, heads=heads)


def bias(scheme: Scheme, offsets: Tensor) -> Tensor:
    found = scheme.offset_bias(offsets)
    assert found is not None
    return found


def slow(
    head: int, heads: int, distance: int, d_bar: int, base: float, first: int
) -> float:
    """H / (8 h) times the sum of cos(distance / base ** (2 m / d_bar))."""
    indices = range(first, first + d_bar // 2)
    cosines = [math.cos(distance * base ** (-2 * m / d_bar)) for m in indices]
    return heads / (8 * head) * math.fsum(cosines)


@pytest.mark.parametrize("indices", ["from_zero", "from_one"])
@pytest.mark.parametrize(("d_bar", "base"), [(128, 1e4), (16, 1e4), (2, 100.0)])
def test_equals_the_slow_reference(d_bar: int, base: float, indices: str) -> None:
    scheme = make(d_bar=d_bar, base=base, indices=indices)
    q, k, _ = vectors(2, 3, 6, 8)
    places = [0, 1, 2, 40, 7, 3000]
    got = attention_logits(
        q, k, scheme=scheme, positions=torch.tensor(places), mask=Mask(causal=False)
    )
    first = int(indices == "from_one")

    def bias(_: int, h: int, i: int, j: int) -> float:
        return slow(h + 1, 3, places[i] - places[j], d_bar, base, first)

    close(got, content_plus(q, k, bias), 1e-11)


def test_is_the_gram_matrix_of_concatenated_sinusoids() -> None:
    options = {"layout": "concatenated"}
    sinusoids = create("sinusoidal", options=options, model_dim=128, heads=1)
    zero = torch.zeros(1, 50, 128, dtype=torch.float64)
    codes = sinusoids.embed(zero, torch.arange(50))[0]
    gram = codes @ codes.T
    zero = torch.zeros(1, 4, 50, 8, dtype=torch.float64)
    logits = attention_logits(
        zero, zero, scheme=make(4), positions=torch.arange(50), mask=Mask(causal=False)
    )
    for h in range(1, 5):
        close(logits[0, h - 1], gram * 4 / (8 * h), 1e-11)


def test_the_starts_differ_by_more_than_a_constant() -> None:
    offsets = torch.tensor([0, -1])
    drops = {}
    for indices in ("from_zero", "from_one"):
        found = bias(make(8, indices=indices), offsets)[0]
        assert found[0].item() == pytest.approx(64)
        drops[indices] = (found[1] - found[0]).item()
    assert drops["from_zero"] == pytest.approx(-1.9063, abs=1e-4)
    assert drops["from_one"] == pytest.approx(-1.4466, abs=1e-4)
    x, positions = normal(1, 8, 9, 8), torch.arange(9)
    one, other = (
        attention(
            x,
            x,
            x,
            scheme=make(8, indices=indices),
            positions=positions,
            mask=Mask(causal=False),
        )
        for indices in drops
    )
    assert (one - other).abs().max() > 1e-2


def test_is_even_and_largest_at_the_query() -> None:
    found = bias(make(), torch.arange(-200, 201))
    assert torch.equal(found, found.flip(1))
    assert (found.argmax(dim=1) == 200).all()


@pytest.mark.parametrize(
    "options", [{"d_bar": 64}, {"base": 9_000.0}, {"indices": "from_one"}]
)
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    offsets = torch.arange(-50, 1)
    change = bias(make(**options), offsets) - bias(make(), offsets)
    assert (change - change[:, :1]).abs().max() > 1e-3  # by more than a constant


def test_bfloat16_keeps_close_positions_apart() -> None:
    positions = torch.tensor([15_962, 15_966, 15_968])
    zero = torch.zeros(1, 3, 3, 8, dtype=torch.bfloat16)
    logits = attention_logits(
        zero, zero, scheme=make(), positions=positions, mask=Mask(causal=False)
    )
    assert logits[0, 0, 0].unique().numel() == 3
    expected = slow(1, 3, 4, 128, 1e4, 0)
    assert logits[0, 0, 0, 1].item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("d_bar", [0, 7, -4])
def test_width_out_of_range(d_bar: int) -> None:
    with pytest.raises(
        ConfigError, match=f"sandwich: d_bar must be even and at least 2, got {d_bar}"
    ):
        make(d_bar=d_bar)


def test_base_must_be_positive() -> None:
    with pytest.raises(
        ConfigError, match=r"sandwich: base must be greater than 0, got -1\.0"
    ):
        make(base=-1.0)
