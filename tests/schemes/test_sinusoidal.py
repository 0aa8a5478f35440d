"""Sinusoids against the formula of the paper, one channel at a time."""

import math
from typing import Any

import pytest
import torch
from schemes.reference import Case, EmbedTests
from schemes.tools import close
from torch import Tensor

from posenc_compare.schemes import Scheme, create


def slow_code(position: int, width: int, base: float = 1e4) -> list[float]:
    """PE(p, 2m) = sin(p / base**(2m / width)), PE(p, 2m + 1) = cos of the same."""
    code = []
    for channel in range(width):
        pair = channel // 2
        angle = position / math.pow(base, 2 * pair / width)
        code.append(math.sin(angle) if channel % 2 == 0 else math.cos(angle))
    return code


def make(**options: float | str) -> Scheme:
    return create("sinusoidal", options=options, model_dim=8, heads=1)


def code_of(scheme: Scheme, positions: Tensor, width: int) -> Tensor:
    zero = torch.zeros(1, positions.shape[-1], width, dtype=torch.float64)
    return scheme.embed(zero, positions)[0]


class TestSinusoidal(EmbedTests):
    name = "sinusoidal"
    cases = [
        *(
            Case({"base": base}, model_dim=width)
            for base in (10_000.0, 100.0, 500_000.0)
            for width in (2, 6, 16)
        ),
        {"layout": "concatenated"},
    ]
    half = Case(model_dim=16)
    wrong_width = 7, "the width must be even, got 7"
    changes = [{"base": 1000.0}, {"layout": "concatenated"}, {"layout": "t2t"}]
    errors = [
        ({"base": -1.0}, r"base must be greater than 0, got -1\.0"),
        (
            {"layout": "half"},
            "layout must be interleaved or concatenated or t2t, got 'half'",
        ),
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        base = case.options.get("base", 1e4)
        paper = slow_code(position, scheme.geometry.model_dim, base)
        return paper[0::2] + paper[1::2] if "layout" in case.options else paper


@pytest.mark.parametrize("width", [2, 8, 10])
def test_t2t_reaches_the_base(width: int) -> None:
    # get_timing_signal_1d: timescales from 1 to 10000, both included
    code = code_of(make(layout="t2t"), torch.tensor([5, 63]), width)
    half = width // 2
    for row, position in zip(code.tolist(), (5, 63), strict=True):
        step = math.log(1e4) / max(half - 1, 1)
        angles = [position * math.exp(-m * step) for m in range(half)]
        expected = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        assert row == pytest.approx(expected, abs=1e-12)
    if width == 8:  # sinusoids of the paper and of tensor2tensor differ much
        paper = code_of(make(layout="concatenated"), torch.tensor([5]), width)
        assert paper[0, 1].item() == pytest.approx(0.4794, abs=5e-5)
        assert code[0, 1].item() == pytest.approx(0.2300, abs=5e-5)


def test_worked_table_of_4_positions_and_8_channels() -> None:
    code = code_of(make(), torch.arange(4), 8)
    assert code[0].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    norms = code.norm(dim=1)
    close(norms, torch.full((4,), 2.0).double(), 1e-15)
    # sin and cos of 1, 0.1, 0.01, 0.001
    first = [0.8415, 0.5403, 0.0998, 0.9950, 0.0100, 1.0000, 0.0010, 1.0000]
    assert code[1].tolist() == pytest.approx(first, abs=5e-5)


def test_first_channels_of_position_1_at_width_512() -> None:
    code = code_of(make(), torch.tensor([1]), 512)[0, :4].tolist()
    digits = [math.floor(number * 1e4) / 1e4 for number in code]
    assert digits == [0.8414, 0.5403, 0.8218, 0.5696]


def test_a_shift_is_one_rotation_for_all_positions() -> None:
    width, shift = 12, 29
    turn = torch.zeros(width, width, dtype=torch.float64)
    for pair in range(width // 2):
        angle = shift / 10_000 ** (2 * pair / width)
        s, c = 2 * pair, 2 * pair + 1
        # sin(a + b) = sin a cos b + cos a sin b, cos(a + b) = cos a cos b - sin a sin b
        turn[s, s] = turn[c, c] = math.cos(angle)
        turn[s, c], turn[c, s] = math.sin(angle), -math.sin(angle)
    positions = torch.arange(100)
    here = code_of(make(), positions, width)
    there = code_of(make(), positions + shift, width)
    close(here @ turn.T, there)


def test_products_of_codes_depend_on_the_distance_alone() -> None:
    positions = torch.arange(40)
    here = code_of(make(), positions, 16)
    there = code_of(make(), positions + 1000, 16)
    close(here @ here.T, there @ there.T, 1e-11)
