"""Shift linearity against exact maps."""

import math

import pytest
import torch

from posenc_compare.measures import shift_linearity as measure
from posenc_compare.measures.probe import Probe
from posenc_compare.measures.shift_linearity import (
    noise_residual,
    shift_linearity,
    shift_residuals,
)
from posenc_compare.schemes import Variant
from posenc_compare.settings.seeds import stream_seed
from posenc_compare.train.progress import Progress


def rows_of(name: str) -> dict:
    result = shift_linearity(Variant(name), Probe(), Progress())
    return {(row.quantity, row.x): row for row in result.rows}


def test_sinusoids_shift_by_a_rotation() -> None:
    rows = rows_of("sinusoidal")
    for k in (1, 2, 4, 8, 16, 32, 64):
        value = rows["linear_residual", k].value
        assert value is not None
        assert value < 1e-11  # float64 rounding times the condition of the codes
        assert rows["linear_residual", k].note == "rounding"


def test_integers_need_the_constant() -> None:
    rows = rows_of("integer")
    assert (rows["affine_residual", 64].value or 0) < 1e-12
    # The best multiple of p for p + k misses by about k / (2 * spread of p).
    assert (rows["linear_residual", 64].value or 0) > 0.1
    assert rows["linear_residual", 64].note != "rounding"


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("many", [49, 40])  # of 49 in each half, all or some
def test_what_a_map_misses_is_seen_beside_the_spread_around_the_mean(
    affine: bool, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "MANY", many)
    torch.manual_seed(0)
    codes = torch.randn(100, 3, dtype=torch.float64).cumsum(dim=0) + 20
    (residual,) = shift_residuals(codes, torch.arange(98), [2], affine, seed=5)
    generator = torch.Generator().manual_seed(stream_seed("halves", 5))
    order = torch.randperm(98, generator=generator)
    fit, held_out = order[:many], order[49 : 49 + many]
    inputs = torch.cat([codes, torch.ones(100, 1).double()], 1) if affine else codes
    best = torch.linalg.lstsq(inputs[fit], codes[fit + 2]).solution
    missed = spread = 0.0
    middle = codes[held_out + 2].mean(dim=0).tolist()
    for p in held_out.tolist():
        missed += math.dist(codes[p + 2], inputs[p] @ best) ** 2
        spread += math.dist(codes[p + 2], middle) ** 2
    assert residual == pytest.approx((missed / spread) ** 0.5, rel=1e-9)


def test_directions_that_hold_only_rounding_are_left_out() -> None:
    # Noise, so that some of the target is left to be fitted, in two channels and in
    # eight that say the same up to rounding.
    torch.manual_seed(0)
    pair = torch.randn(400, 2, dtype=torch.float64).cumsum(dim=0)
    pair = pair - pair.mean(dim=0)
    copies = torch.cat([pair * factor for factor in (1, 1 / 3, 0.7, 1.1)], dim=1)
    copies = copies + 1e-15 * torch.randn(400, 8, dtype=torch.float64)
    (residual,) = shift_residuals(copies, torch.arange(399), [1], affine=False, seed=0)
    scaled = pair * (1 + 1 / 9 + 0.49 + 1.21) ** 0.5
    (expected,) = shift_residuals(scaled, torch.arange(399), [1], affine=False, seed=0)
    assert residual == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("fitted", "channels"), [(60, 12), (60, 40), (40, 60)])
def test_noise_has_the_residual_that_is_said(fitted: int, channels: int) -> None:
    # The ratio of the means of squares over many tables; a single one varies more.
    torch.manual_seed(0)
    found = []
    for seed in range(200):
        codes = torch.randn(2 * fitted + 1, channels, dtype=torch.float64)
        starts = torch.arange(2 * fitted)
        (residual,) = shift_residuals(codes, starts, [1], affine=False, seed=seed)
        assert residual is not None
        found.append(residual**2)
    # The mean of the held-out half is fitted to it, which leaves 1 - 1 / fitted.
    mean = sum(found) / len(found) * (1 - 1 / fitted)
    spread = (sum((f - mean) ** 2 for f in found) / len(found)) ** 0.5
    expected = noise_residual(fitted, channels)
    assert expected is not None
    assert abs(mean - expected**2) < 4 * spread / len(found) ** 0.5


def test_noise_has_no_expectation_at_as_many_rows_as_channels() -> None:
    assert noise_residual(7, 8) is noise_residual(8, 8) is noise_residual(9, 8) is None


# Of 448 positions that can move by 64, half are fitted. Noise has a residual of
# sqrt(1 + width / (224 - width - 1)), told below four positions for each channel.
@pytest.mark.parametrize(
    ("width", "note"),
    [
        (128, "224 positions for 128 channels: noise has 1.53"),
        (64, "224 positions for 64 channels: noise has 1.18"),
        (56, ""),
    ],
)
def test_few_positions_for_each_channel_are_told_beside_the_residual(
    width: int, note: str
) -> None:
    probe = Probe(width=width, heads=4, positions=512)
    result = shift_linearity(Variant("learned"), probe, Progress())
    rows = {(row.quantity, row.x): row for row in result.rows}
    noise, learned = rows["linear_residual_of_noise", None], rows["linear_residual", 1]
    assert noise.note == learned.note == note
    assert learned.value == pytest.approx(noise.value, rel=0.05)  # starts as noise


def test_codes_that_are_all_equal_have_no_residual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        measure, "position_codes", lambda *_: torch.ones(512, 8).double()
    )
    rows = rows_of("nope")
    for quantity in ("linear_residual", "affine_residual"):
        row = rows[quantity, 1]
        assert (row.value, row.note) == (None, "all codes are equal")


def test_on_a_grid_a_shift_is_along_both_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Codes of the diagonal that a cell is on: a shift along both axes leaves them.
    draw = torch.Generator().manual_seed(0)
    table = torch.randn(23, 3, generator=draw, dtype=torch.float64)
    row, column = torch.arange(144) // 12, torch.arange(144) % 12
    codes = table[row - column + 11]
    monkeypatch.setattr(measure, "position_codes", lambda *_: codes)
    grid = Probe(positions=144, grid="12x12")
    rows = shift_linearity(Variant("sinusoidal_2d"), grid, Progress()).rows
    found = {row.x: row.value for row in rows if row.quantity == "linear_residual"}
    assert found.keys() == {1, 2}
    assert all(value is not None and value < 1e-12 for value in found.values())
