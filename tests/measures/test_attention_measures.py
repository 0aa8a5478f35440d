"""Measures through attention: what must be zero, and what must not."""

import math

import pytest
import torch

from posenc_compare.analysis.base import Progress
from posenc_compare.analysis.measures.distance_decay import (
    distance_decay,
    mean_logits,
    rotation_bound,
)
from posenc_compare.analysis.measures.order_sensitivity import order_sensitivity
from posenc_compare.analysis.measures.shift_error import shift_error
from posenc_compare.analysis.probe import Probe
from posenc_compare.conformance import built_in
from posenc_compare.errors import ConfigError
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import Variant
from posenc_compare.schemes.slopes import slopes

AXES = {name: SCHEMES.entry(name).facts.get("axes", 1) for name in built_in()}
SEQUENCE = [name for name, axes in AXES.items() if axes == 1]
BEYOND = [name for name, axes in AXES.items() if axes != 1]
# Only queries beyond its threshold of 512 tokens know where they stand.
NEAR: dict[str, dict[str, object]] = {"fire": {"threshold": 8.0}}
PROBE = Probe(positions=256)
ROUNDING = 1e-12  # float64, logits of about 10, sums of 32 products


def values(measure, name: str, probe: Probe = PROBE, **options: object) -> dict:
    rows = measure(Variant(name, options), probe, Progress()).rows
    return {(row.quantity, row.case, row.x): row.value for row in rows}


@pytest.mark.parametrize("name", SEQUENCE)
def test_shift_error_is_zero_for_relative_schemes_alone(name: str) -> None:
    rows = values(shift_error, name, PROBE, **NEAR.get(name, {}))
    if SCHEMES.get(name).relative:
        assert rows["shift_error", "plain", 64] < ROUNDING
    else:
        assert rows["shift_error", "plain", 64] > 0.01


def test_fire_is_relative_up_to_its_threshold() -> None:
    assert values(shift_error, "fire")["shift_error", "plain", 64] < ROUNDING


def test_most_schemes_are_relative_or_not_by_their_family() -> None:
    said = {name: SCHEMES.get(name).relative for name in SEQUENCE}
    family = {name: SCHEMES.get(name).family != "absolute" for name in SEQUENCE}
    assert said == {**family, "fire": False, "fope": False}


def test_a_layernorm_removes_integers_whole() -> None:
    rows = values(shift_error, "integer")
    assert rows["shift_error", "plain", 64] > 0.1
    assert rows["shift_error", "after LayerNorm", 64] < ROUNDING


def test_shift_error_past_a_table_says_so() -> None:
    rows = shift_error(Variant("learned"), Probe(positions=64), Progress()).rows
    assert {(row.value, row.note) for row in rows} == {(None, "not defined beyond 64")}


def test_shuffling_changes_nothing_without_positions() -> None:
    for name in ("nope", "integer"):
        rows = values(order_sensitivity, name)
        assert rows["order_sensitivity", "bidirectional", None] < ROUNDING
        assert rows["order_sensitivity", "causal", None] > 0.01
    for name in ("sinusoidal", "rope", "alibi", "binary"):
        rows = values(order_sensitivity, name)
        assert rows["order_sensitivity", "bidirectional", None] > 0.01


def test_causal_only_schemes_say_why() -> None:
    rows = order_sensitivity(
        Variant("alibi", {"direction": "causal"}), PROBE, Progress()
    ).rows
    assert rows[0].value is None
    assert rows[0].note == "needs a causal mask"


def test_alibi_decays_by_its_mean_slope() -> None:
    curve = mean_logits(PROBE.build(Variant("alibi")), PROBE, 100)
    slope = sum(slopes(4)) / 4
    expected = curve[0] - slope * torch.arange(100, dtype=torch.float64)
    torch.testing.assert_close(curve, expected, rtol=0, atol=1e-10)
    assert values(distance_decay, "alibi")["decay_monotonicity", "", None] == (
        pytest.approx(-1, abs=1e-12)
    )


def test_nope_does_not_decay() -> None:
    rows = values(distance_decay, "nope")
    assert rows["decay_monotonicity", "", None] == 0
    assert abs(rows["decay_drop", "", None]) < ROUNDING


def test_rotation_bound_equals_the_sums_of_the_paper() -> None:
    angles = PROBE.build(Variant("rope")).angles(torch.arange(5))
    assert angles is not None
    pairs = angles.shape[1]
    for distance in range(5):
        turns = [
            complex(math.cos(x), math.sin(x))
            for x in (distance * 10_000 ** (-i / pairs) for i in range(pairs))
        ]
        sums = [abs(sum(turns[: i + 1])) for i in range(pairs)]
        at_zero = (pairs + 1) / 2
        slow = sum(sums) / pairs / at_zero
        assert float(rotation_bound(angles)[distance]) == pytest.approx(slow, rel=1e-12)


def test_too_few_positions_to_shuffle_give_a_reason() -> None:
    (row,) = order_sensitivity(Variant("rope"), Probe(positions=2), Progress()).rows
    assert row.note == "needs at least 3 positions"
    rows = values(order_sensitivity, "alibi", Probe(positions=3))
    assert rows["order_sensitivity", "bidirectional", None] > 0.001


def test_t5_is_probed_at_the_temperature_it_starts_with() -> None:
    # Its queries start smaller by sqrt(head_dim), in place of the scale it lacks.
    nope = values(order_sensitivity, "nope")["order_sensitivity", "causal", None]
    t5 = values(order_sensitivity, "t5_bias")["order_sensitivity", "causal", None]
    assert t5 == pytest.approx(nope, rel=0.2)


@pytest.mark.parametrize("name", BEYOND)
def test_positions_of_several_axes_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: needs positions of {AXES[name]} "):
        PROBE.build(Variant(name))
