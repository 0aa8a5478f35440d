"""Random Fourier features against one cosine and one sine at a time."""

import math
from typing import Any

import pytest
import torch
from schemes.reference import Case, EmbedTests
from schemes.tools import build, normal

from posenc_compare.schemes.fourier_random import FourierRandom


def make(
    model_dim: int = 8, length: int = 50, seed: int = 0, **options: float
) -> FourierRandom:
    sizes = {"model_dim": model_dim, "heads": 1, "length": length}
    return build(FourierRandom, options, seed=seed, **sizes)


def slow(scheme: FourierRandom, position: int, length: int) -> list[float]:
    """cos(2 pi b v) for all b, then sin(2 pi b v), with v = position / length."""
    frequencies = scheme.frequencies.tolist()
    angles = [2 * math.pi * b * position / length for b in frequencies]
    return [math.cos(a) for a in angles] + [math.sin(a) for a in angles]


class TestFourierRandom(EmbedTests):
    name = "fourier_random"
    sizes = {"model_dim": 8, "heads": 1, "length": 50}
    cases = [{}, Case({"sigma": 4.0}, length=7)]
    half = Case({"sigma": 1000.0}, model_dim=32, length=16_000)
    wrong_width = 6, r"the width must be 8, .* 6"
    changes = [{"sigma": 4.0}]
    errors = [
        (Case(model_dim=7), "model_dim must be even, got 7"),
        *(
            ({"sigma": sigma}, f"sigma must be greater than 0, got {sigma}")
            for sigma in (0.0, -1.0)
        ),
    ]

    def trained(self, case: Case) -> FourierRandom:
        return self.build(case)

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        return slow(scheme, position, scheme.geometry.length)


@pytest.mark.parametrize("sigma", [1.0, 10.0])
def test_inner_products_are_near_a_gaussian(sigma: float) -> None:
    pairs = 20_000
    scheme = make(2 * pairs, sigma=sigma, length=100)
    code = scheme.embed(torch.zeros(1, 40, 2 * pairs).double(), torch.arange(40))[0]
    products = code @ code.T / pairs
    for p in range(0, 40, 3):
        for q in range(0, 40, 5):
            distance = (p - q) / 100
            gaussian = math.exp(-2 * (math.pi * sigma * distance) ** 2)
            # A mean of cosines: standard deviation at most 1 / sqrt(2 pairs).
            assert products[p, q].item() == pytest.approx(gaussian, abs=0.025)


def test_frequencies_are_drawn_kept_and_not_trained() -> None:
    scheme, other = make(2000, seed=0), make(2000, seed=1)
    assert scheme.frequencies.std().item() == pytest.approx(10, rel=0.1)
    assert abs(scheme.frequencies.mean().item()) < 1.5
    assert not torch.equal(scheme.frequencies, other.frequencies)
    assert list(scheme.state_dict()) == ["frequencies"]
    assert not any(p.requires_grad for p in scheme.parameters())
    other.load_state_dict(scheme.state_dict())
    x, positions = normal(1, 4, 2000), torch.arange(4)
    assert torch.equal(other.embed(x, positions), scheme.embed(x, positions))
