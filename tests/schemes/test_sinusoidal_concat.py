"""Concatenated sinusoids against loops over channels."""

import math
from typing import Any

import torch
from schemes.reference import Case, EmbedTests, combine
from schemes.tools import build, close, dot, normal, perturbed
from torch import Tensor

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


class TestSinusoidalConcat(EmbedTests):
    name = "sinusoidal_concat"
    sizes = {"model_dim": 6, "heads": 1}
    noise = 1.0
    cases = combine(base=(10_000.0, 100.0), channels=(6, 2, 10))
    half = Case(model_dim=32)
    wrong_width = 8, r"the width must be 6, .* got 8"
    changes = [{"channels": 4}, {"base": 9_000.0}]
    errors = [
        (
            {"channels": channels},
            f"channels must be even and at least 2, got {channels}",
        )
        for channels in (3, 1, -2)
    ]

    def embedded(self, scheme: Any, case: Case, token: Tensor, position: int) -> Tensor:
        channels = case.options.get("channels", scheme.geometry.model_dim)
        code = sinusoid(position, channels, case.options.get("base", 1e4))
        both = token.tolist() + code
        rows = [dot(row, both) for row in scheme.project.weight.tolist()]
        return torch.tensor(rows, dtype=torch.float64)


def test_the_identity_as_projection_is_the_sinusoidal_scheme() -> None:
    scheme, x, positions = make(), normal(2, 5, 6), torch.arange(5) * 17
    with torch.no_grad():
        scheme.project.weight[:, 6:] = torch.eye(6)
    expected = create("sinusoidal", model_dim=6, heads=1).embed(x, positions)
    close(scheme.embed(x, positions), expected, 1e-14)
