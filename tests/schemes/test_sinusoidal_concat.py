"""Concatenated sinusoids against loops over channels."""

import math
from typing import Any

import pytest
import torch
from schemes.tools import build, close, normal, perturbed

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes import create
from posenc_compare.schemes.sinusoidal_concat import SinusoidalConcat


def make(model_dim: int = 6, noise: float = 0.0, **options: float) -> SinusoidalConcat:
    scheme = build(SinusoidalConcat, options, model_dim=model_dim, heads=1)
    return perturbed(scheme, noise)


def sinusoid(position: int, channels: int, base: float) -> list[float]:
    code = []
    for pair in range(channels // 2):
        angle = position * base ** (-2 * pair / channels)
        code += [math.sin(angle), math.cos(angle)]
    return code


@pytest.mark.parametrize("base", [10_000.0, 100.0])
@pytest.mark.parametrize("channels", [6, 2, 10])
def test_equals_the_slow_reference(channels: int, base: float) -> None:
    scheme = make(noise=1.0, channels=channels, base=base)
    x, positions = normal(2, 4, 6), [[0, 1, 39, 400], [7, 3, -2, 12]]
    got = scheme.embed(x, torch.tensor(positions))
    weight = scheme.project.weight.tolist()
    for b in range(2):
        for i in range(4):
            both = x[b, i].tolist() + sinusoid(positions[b][i], channels, base)
            for c in range(6):
                expected = sum(w * v for w, v in zip(weight[c], both, strict=True))
                assert got[b, i, c].item() == pytest.approx(expected, abs=1e-12)


def test_starts_as_the_token_plus_a_projection_of_the_code() -> None:
    scheme, x, positions = make(), normal(2, 5, 6), torch.arange(5)
    code = scheme.embed(torch.zeros_like(x), positions)
    got = scheme.embed(x, positions)
    close(got, x + code, 1e-14)
    assert torch.equal(scheme.project.weight[:, :6], torch.eye(6).double())


def test_the_identity_as_projection_is_the_sinusoidal_scheme() -> None:
    scheme, x, positions = make(), normal(2, 5, 6), torch.arange(5) * 17
    with torch.no_grad():
        scheme.project.weight[:, 6:] = torch.eye(6)
    expected = create("sinusoidal", model_dim=6, heads=1).embed(x, positions)
    close(scheme.embed(x, positions), expected, 1e-14)


@pytest.mark.parametrize("channels", [0, 64])
def test_starts_with_codes_as_large_as_added_ones(channels: int) -> None:
    scheme = make(512, channels=channels)
    code = scheme.embed(torch.zeros(1, 64, 512).double(), torch.arange(64))[0]
    # A sinusoid has the mean square 1/2; 512 projections of it are known to 6 %.
    assert code.square().mean().item() == pytest.approx(0.5, rel=0.12)
    plain = torch.tensor([sinusoid(p, channels or 512, 1e4) for p in range(64)])
    plain = plain.double() * (512 / (channels or 512)) ** 0.5
    assert (code @ code.T - plain @ plain.T).abs().max() < 0.25 * 256


@pytest.mark.parametrize("options", [{"channels": 4}, {"base": 9_000.0}])
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    x, positions = normal(1, 4, 6), torch.arange(4) * 50
    change = make(**options).embed(x, positions) - make().embed(x, positions)
    assert change.abs().max() > 1e-4


def test_bfloat16_is_rounded_once() -> None:
    scheme = make(32)
    positions = torch.tensor([15_962, 15_966, 15_968])  # two are one in bfloat16
    code = scheme.embed(torch.zeros(1, 3, 32).bfloat16(), positions)[0]
    waves = torch.tensor([sinusoid(p, 32, 1e4) for p in positions.tolist()])
    wide = waves.double() @ scheme.project.weight[:, 32:].T
    assert ((code.double() - wide).abs() <= 2.0**-8 * wide.abs() + 1e-6).all()
    assert code.unique(dim=0).shape[0] == 3


def test_autocast_changes_nothing() -> None:
    scheme, x = make().float(), normal(1, 3, 6).float()
    plain = scheme.embed(x, torch.arange(3))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(scheme.embed(x, torch.arange(3)), plain)


@pytest.mark.parametrize("channels", [3, 1, -2])
def test_channels_out_of_range(channels: int) -> None:
    with pytest.raises(
        ConfigError,
        match=f"sinusoidal_concat: channels must be even and at least 2, "
        f"got {channels}",
    ):
        make(channels=channels)


def test_another_width() -> None:
    with pytest.raises(
        ShapeError, match=r"sinusoidal_concat: the width must be 6, .* got 8"
    ):
        make().embed(normal(1, 2, 8), torch.arange(2))
