"""Learned Fourier features against loops over waves and hidden units."""

import math
from typing import Any

import pytest
import torch
from schemes.reference import Case, EmbedTests
from schemes.tools import build, perturbed

from posenc_compare.schemes.fourier_learned import FourierLearned


def make(
    model_dim: int = 6, noise: float = 0.0, **options: float | str | bool
) -> FourierLearned:
    sizes = {"model_dim": model_dim, "heads": 1, "length": 40}
    return perturbed(build(FourierLearned, options, **sizes), noise)


def slow(scheme: FourierLearned, position: float) -> list[float]:
    """Return GELU(F W1 + b1) W2 + b2, with F the waves over the root of their number.

    GELU(z) is z times the share of a normal distribution below z.
    """
    frequencies = scheme.waves.weight.flatten().tolist()
    features = [math.cos(position * w) for w in frequencies]
    features += [math.sin(position * w) for w in frequencies]
    features = [f / math.sqrt(len(features)) for f in features]
    units = []
    rows, biases = scheme.rise.weight.tolist(), scheme.rise.bias.tolist()
    for row, bias in zip(rows, biases, strict=True):
        z = bias + sum(w * f for w, f in zip(row, features, strict=True))
        units.append(z * (1 + math.erf(z / math.sqrt(2))) / 2)
    rows, biases = scheme.fall.weight.tolist(), scheme.fall.bias.tolist()
    return [
        bias + sum(w * u for w, u in zip(row, units, strict=True))
        for row, bias in zip(rows, biases, strict=True)
    ]


class TestFourierLearned(EmbedTests):
    name = "fourier_learned"
    sizes = {"model_dim": 6, "heads": 1, "length": 40}
    noise = 1.0
    cases = [
        {"features": features, "hidden": 5, "normalised": normalised}
        for features in (0, 2, 10)
        for normalised in (False, True)
    ]
    half = Case({"gamma": 0.5}, model_dim=32)
    wrong_width = 8, r"the width must be 6, .* 8"
    changes = [
        {"features": 4},
        {"hidden": 16},
        {"gamma": 5.0},
        {"spread": "std"},
        {"normalised": True},
    ]
    errors = [
        ({"features": 3}, "features must be even and at least 2, got 3"),
        ({"features": -2}, "features must be even and at least 2, got -2"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"gamma": 0.0}, "gamma must be greater than 0, got 0.0"),
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        length = scheme.geometry.length if case.options.get("normalised") else 1
        return slow(scheme, position / length)


def test_readings_of_gamma() -> None:
    for spread, std in (("variance", 1 / 10), ("std", 1 / 100)):
        scheme = make(4000, spread=spread)
        # 2000 draws: the spread is known to 1 / sqrt(4000) = 1.6 %.
        assert scheme.waves.weight.std().item() == pytest.approx(std, rel=0.08)
    one, other = (make(gamma=1.0, spread=spread) for spread in ("variance", "std"))
    assert torch.equal(one.waves.weight, other.waves.weight)
