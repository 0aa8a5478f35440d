"""A number that there is not has its reason."""

from typing import Any

import pytest

from posenc_compare.measures.probe import Probe
from posenc_compare.registry import MEASURES
from posenc_compare.train.progress import Progress
from posenc_compare.variants import labelled

GRID = {"grid": "4x4", "positions": 16}
FEW = {"width": 32, "heads": 4, "tokens": 32}
FAR = "float16 holds no such position"
# A measure, a scheme, sizes of the probe, all reasons, and how many have a number.
REASONS: list[tuple[str, str, dict[str, Any], set[str], int]] = [
    ("attention_cost", "rope_2d", GRID, {"measured in a sequence only"}, 0),
    ("attention_reach", "alibi_2d", GRID, {"measured in a sequence only"}, 0),
    ("attention_reach", "learned", {"tokens": 16}, {"not defined beyond 16"}, 5),
    ("far_keys", "fox", {}, {"reads no position ids"}, 0),
    ("far_keys", "learned", {}, {"not defined beyond 64"}, 0),
    ("far_keys", "mix:window=16", {}, {"hides keys beyond its window of 16"}, 0),
    ("far_keys", "randomized", {}, {"draws its own ids"}, 0),
    ("far_keys", "rope_2d", GRID, {"a grid has no distance this far"}, 0),
    ("order_sensitivity", "alibi:direction=causal", {}, {"needs a causal mask"}, 1),
    ("order_sensitivity", "rope", {"positions": 2}, {"needs at least 3 positions"}, 0),
    (
        *("precision", "learned", FEW),
        *({"no plain rotation", "not defined beyond 64", FAR}, 12),
    ),
    ("precision", "rope", FEW, {"adds no code", FAR}, 90),
    ("precision", "rope_2d", GRID, {"measured in a sequence only"}, 0),
    ("shift_error", "learned", {}, {"not defined beyond 64"}, 0),
    *(
        ("shift_linearity", name, {}, {"adds no code to tokens"}, 0)
        for name in ("nope", "rope", "alibi", "t5_bias")
    ),
    (
        *("shift_linearity", "fox", {}),
        *({"has no code of a position or distance alone"}, 0),
    ),
    ("shift_linearity", "sinusoidal_2d", GRID, {"needs a larger grid"}, 0),
    (
        *("shift_linearity", "sinusoidal_2d", {"grid": "3x5", "positions": 15}),
        *({"needs at least 4 positions along every axis"}, 0),
    ),
]


@pytest.mark.parametrize(("measure", "label", "sizes", "reasons", "known"), REASONS)
def test_a_number_that_there_is_not_has_its_reason(
    measure: str, label: str, sizes: dict[str, Any], reasons: set[str], known: int
) -> None:
    probe = Probe(**{"positions": 64, **sizes})
    rows = MEASURES.get(measure).compute(labelled(label), probe, Progress()).rows
    assert {row.note for row in rows if row.value is None} == reasons
    assert sum(row.value is not None for row in rows) == known
