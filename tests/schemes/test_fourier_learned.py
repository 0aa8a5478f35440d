"""Learned Fourier features against loops over waves and hidden units."""

import math
from typing import Any

import pytest
import torch
from schemes.tools import build, close, normal, perturbed

from posenc_compare.errors import ConfigError, ShapeError
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


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("features", [0, 2, 10])
def test_equals_the_slow_reference(features: int, normalised: bool) -> None:
    scheme = make(noise=1.0, features=features, hidden=5, normalised=normalised)
    x, positions = normal(2, 4, 6, seed=9), [[0, 1, 39, 400], [7, 3, -2, 12]]
    got = scheme.embed(x, torch.tensor(positions))
    for b in range(2):
        for i in range(4):
            place = positions[b][i] / (40 if normalised else 1)
            expected = x[b, i] + torch.tensor(slow(scheme, place), dtype=torch.float64)
            close(got[b, i], expected)


def test_readings_of_gamma() -> None:
    for spread, std in (("variance", 1 / 10), ("std", 1 / 100)):
        scheme = make(4000, spread=spread)
        # 2000 draws: the spread is known to 1 / sqrt(4000) = 1.6 %.
        assert scheme.waves.weight.std().item() == pytest.approx(std, rel=0.08)
    one, other = (make(gamma=1.0, spread=spread) for spread in ("variance", "std"))
    assert torch.equal(one.waves.weight, other.waves.weight)


def test_frequencies_are_trained() -> None:
    scheme = make(noise=0.5)
    scheme.embed(normal(1, 5, 6), torch.arange(5)).square().sum().backward()
    for name, parameter in scheme.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 1e-6, name


@pytest.mark.parametrize(
    "options",
    [
        {"features": 4},
        {"hidden": 16},
        {"gamma": 5.0},
        {"spread": "std"},
        {"normalised": True},
    ],
)
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    x, positions = normal(1, 6, 6), torch.arange(6) * 5
    change = make(**options).embed(x, positions) - make().embed(x, positions)
    assert change.abs().max() > 1e-4


def test_bfloat16_is_rounded_once() -> None:
    scheme = make(32, gamma=0.5, noise=0.5)
    positions = torch.tensor([15_962, 15_966, 15_968])  # two are one in bfloat16
    code = scheme.embed(torch.zeros(1, 3, 32).bfloat16(), positions)[0]
    expected = [slow(scheme, p) for p in positions.tolist()]
    wide = torch.tensor(expected, dtype=torch.float64)
    assert ((code.double() - wide).abs() <= 2.0**-8 * wide.abs() + 1e-12).all()
    assert code.unique(dim=0).shape[0] == 3


def test_autocast_changes_nothing() -> None:
    scheme, x = make(noise=0.5).float(), normal(1, 3, 6).float()
    plain = scheme.embed(x, torch.arange(3))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(scheme.embed(x, torch.arange(3)), plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 3}, "features must be even and at least 2, got 3"),
        ({"features": -2}, "features must be even and at least 2, got -2"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"gamma": 0.0}, "gamma must be greater than 0, got 0.0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"fourier_learned: {message}"):
        make(**options)


def test_another_width() -> None:
    with pytest.raises(ShapeError, match=r"fourier_learned: the width must be 6, .* 8"):
        make().embed(normal(1, 2, 8), torch.arange(2))
