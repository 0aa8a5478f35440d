"""What a distance does to the ranking of keys, against values known beforehand."""

import math

import pytest
import torch
from torch import Tensor

from posenc_compare.measures.far_keys import DISTANCES, far_keys
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Variant
from posenc_compare.schemes.alibi import Alibi
from posenc_compare.train.progress import Progress
from posenc_compare.variants import labelled

PROBE = Probe(positions=64)


def shares(label: str, probe: Probe = PROBE) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"locality": [], "inconsistency": []}
    rows = far_keys(labelled(label), probe, Progress()).rows
    for row in rows:
        assert row.value is not None, row
        found[row.quantity].append(row.value)
    assert [row.x for row in rows[::2]] == [*DISTANCES]
    return found


def notes(variant: Variant, probe: Probe = PROBE) -> list[str]:
    return [row.note for row in far_keys(variant, probe, Progress()).rows[::2]]


@pytest.mark.parametrize("name", ["alibi", "kerple_log", "grape_a"])
def test_a_falling_bias_lowers_every_key_and_keeps_their_ranking(name: str) -> None:
    assert shares(name) == {"locality": [1.0] * 4, "inconsistency": [0.0] * 4}


def test_without_positions_far_keys_are_as_near_ones() -> None:
    assert shares("nope") == {"locality": [0.5] * 4, "inconsistency": [0.0] * 4}


def test_one_rotation_reverses_pairs_as_often_as_its_angle_says() -> None:
    # For a key difference of any direction, q and q turned by a have products of
    # unlike sign with probability a / pi.
    found = shares("rope", Probe(positions=64, width=128, heads=64))["inconsistency"]
    for distance, share in zip(DISTANCES, found, strict=True):
        turn = (distance - 1) % math.tau
        assert share == pytest.approx(min(turn, math.tau - turn) / math.pi, abs=0.04)


def test_a_rotation_as_slow_as_the_distance_is_long_is_consistent() -> None:
    found = shares("rope:base=1e30", Probe(positions=64, width=128, heads=1))
    assert found["inconsistency"][0] < shares("rope")["inconsistency"][0] / 3


def test_hidden_keys_have_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(self: Alibi, offsets: Tensor) -> Tensor:
        bias = torch.zeros(4, len(offsets), dtype=torch.float64)
        return bias.masked_fill(offsets.abs() > 1000, -torch.inf)

    monkeypatch.setattr(Alibi, "offset_bias", hidden)
    assert notes(Variant("alibi")) == ["", *["hides far keys"] * 3]


def test_rounding_is_no_locality_and_no_inconsistency() -> None:
    # A LayerNorm leaves nothing of the code of integers.
    assert shares("integer")["locality"] == [0.5] * 4
    narrow = shares("kerple_power", Probe(positions=64, dtype="float32"))
    assert narrow == {"locality": [1.0] * 4, "inconsistency": [0.0] * 4}
