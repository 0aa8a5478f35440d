"""Resemblance of codes and bits, against slow correlations."""

import math
import statistics
from typing import Any

import pytest
import torch

from posenc_compare.measures.probe import Probe
from posenc_compare.measures.resemblance import (
    best_correlations,
    bits_of,
    resemblance,
)
from posenc_compare.schemes import Variant
from posenc_compare.train.progress import Progress

PERIODS = [2, 4, 8, 16, 32, 64]


def rows_of(name: str, probe: Probe | None = None, **options: Any) -> dict:
    probe = probe or Probe(positions=64)
    rows = resemblance(Variant(name, options), probe, Progress()).rows
    return {(row.quantity, row.case, row.x): row for row in rows}


@pytest.mark.parametrize("signed", [True, False])
def test_bits_are_bits(signed: bool) -> None:
    rows = rows_of("binary", signed=signed)
    for period in PERIODS:
        found = rows["bit_resemblance", "", period].value
        assert found == pytest.approx(1, abs=1e-12)
    assert rows["bit_resemblance", "mean", None].value == pytest.approx(1, abs=1e-12)


def test_resemblance_is_the_best_correlation_of_any_channel() -> None:
    rows = rows_of("sinusoidal", Probe(positions=50, width=12, heads=1))
    channels = [
        [part(p * 10_000 ** (-m / 6)) for p in range(50)]
        for m in range(6)
        for part in (math.sin, math.cos)
    ]
    best = []
    for bit in range(6):
        digits = [float(bool(p & 2**bit)) for p in range(50)]
        found = [abs(statistics.correlation(digits, c)) for c in channels]
        best.append(max(found))
        value = rows["bit_resemblance", "", 2 ** (bit + 1)].value
        assert value == pytest.approx(best[-1], rel=1e-9)
    mean = rows["bit_resemblance", "mean", None].value
    assert mean == pytest.approx(statistics.mean(best))


def test_a_sine_of_the_period_in_the_best_phase_has_0_9() -> None:
    positions = torch.arange(4096)
    turns = 2 * math.pi * (positions.double() + 0.5) / 512
    (found,) = best_correlations(bits_of(positions)[:, [8]], turns.sin()[:, None])
    assert float(found) == pytest.approx(8**0.5 / math.pi, rel=1e-4)


@pytest.mark.parametrize(("positions", "slow"), [(64, 8), (512, 64)])
def test_sinusoids_resemble_slow_bits_alone(positions: int, slow: int) -> None:
    # Of the fastest bits there is no sine, and others lose step after eight periods.
    rows = rows_of("sinusoidal", Probe(positions=positions))
    chance = rows["bit_resemblance_by_chance", "mean", None].value
    for period in (2, 4) if positions == 64 else (2, 4, 8, 16):
        assert rows["bit_resemblance", "", period].value < chance
    for bit in range(slow.bit_length() - 1, positions.bit_length()):
        assert rows["bit_resemblance", "", 2**bit].value > 2.5 * chance


def test_shuffled_bits_are_bits_no_more() -> None:
    rows = rows_of("binary", Probe())
    chance = [rows["bit_resemblance_by_chance", "", 2**i].value for i in range(1, 10)]
    # Of nine channels, correlations with a deviation of 512 ** -0.5 = 0.044.
    assert 0.02 < max(chance) < 0.25
    mean = rows["bit_resemblance_by_chance", "mean", None].value
    assert mean == pytest.approx(statistics.mean(chance))


def test_a_constant_channel_resembles_nothing() -> None:
    # The mean of 0.1 is not 0.1 to the last digit.
    codes = torch.full((100, 1), 0.1, dtype=torch.float64)
    assert best_correlations(bits_of(torch.arange(100)), codes).tolist() == [0] * 7
