"""Sinusoids against the formula of the paper, one channel at a time."""

import math

import pytest
import torch
from schemes.tools import close, normal
from torch import Tensor

from posenc_compare.errors import ConfigError, ShapeError
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


@pytest.mark.parametrize("base", [10_000.0, 100.0, 500_000.0])
@pytest.mark.parametrize("width", [2, 6, 16])
def test_equals_the_slow_reference(width: int, base: float) -> None:
    x = normal(2, 6, width)
    positions = [0, 1, 5, 63, 500, -3]
    got = make(base=base).embed(x, torch.tensor(positions))
    rows = [slow_code(p, width, base) for p in positions]
    expected = x + torch.tensor(rows, dtype=torch.float64)
    close(got, expected)


def test_concatenated_puts_all_sines_first() -> None:
    positions = torch.tensor([0, 1, 5, 63])
    code = code_of(make(layout="concatenated"), positions, 8)
    for row, position in zip(code.tolist(), positions.tolist(), strict=True):
        paper = slow_code(position, 8)
        assert row == pytest.approx(paper[0::2] + paper[1::2], abs=1e-12)


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


def test_norm_is_the_root_of_half_the_width_everywhere() -> None:
    positions = torch.tensor([0, 1, 17, 4096, 10**6])
    norms = code_of(make(), positions, 512).norm(dim=1)
    close(norms, torch.full((5,), 16.0).double(), 1e-13)


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


def test_each_option_changes_the_output() -> None:
    positions = torch.tensor([3])
    default = code_of(make(), positions, 8)
    assert not torch.allclose(default, code_of(make(base=1000.0), positions, 8))
    other = code_of(make(layout="concatenated"), positions, 8)
    assert not torch.allclose(default, other)


def test_bfloat16_rounds_the_code_and_the_sum_only() -> None:
    positions = torch.tensor([15962, 15966, 15968])  # the first two collide there
    width = 16
    rows = [slow_code(p, width) for p in positions.tolist()]
    code = torch.tensor(rows, dtype=torch.float64)
    x = normal(1, 3, width).bfloat16()
    got = make().embed(x, positions)
    assert got.dtype == torch.bfloat16
    exact = x.double() + code
    unit = 2.0**-8
    bound = unit * (code.abs() + exact.abs() * (1 + unit) + unit * code.abs())
    assert ((got.double() - exact).abs() <= bound).all()
    alone = make().embed(torch.zeros(1, 3, width, dtype=torch.bfloat16), positions)
    assert torch.equal(alone[0], code.bfloat16())
    assert alone[0].unique(dim=0).shape[0] == 3


def test_odd_width() -> None:
    with pytest.raises(ShapeError, match="sinusoidal: the width must be even, got 7"):
        code_of(make(), torch.arange(2), 7)


def test_base_must_be_positive() -> None:
    with pytest.raises(ConfigError, match=r"base must be greater than 0, got -1\.0"):
        code_of(make(base=-1.0), torch.arange(2), 8)


def test_unknown_layout() -> None:
    with pytest.raises(
        ConfigError,
        match="layout must be interleaved or concatenated or t2t, got 'half'",
    ):
        make(layout="half")
