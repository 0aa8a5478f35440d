"""What counts as rounding, and what does not."""

import math

import pytest

from posenc_compare.measures.order_sensitivity import order_sensitivity
from posenc_compare.measures.probe import Probe
from posenc_compare.measures.rounding import rounding_note
from posenc_compare.measures.shift_error import shift_error
from posenc_compare.schemes import Variant
from posenc_compare.train.progress import Progress

PROBE = Probe(positions=256)


def notes(measure, name: str, probe: Probe = PROBE) -> dict:
    rows = measure(Variant(name), probe, Progress()).rows
    return {(row.case, row.x): row.note for row in rows if row.value is not None}


def test_zero_is_no_rounding() -> None:
    assert rounding_note(0.0, 1.0, PROBE) == ""
    assert set(notes(shift_error, "alibi").values()) == {""}


def test_the_limit_grows_with_the_numbers_and_their_sums() -> None:
    last = math.ulp(1.0)
    assert rounding_note(384 * last, 1.0, PROBE) == "rounding"
    assert rounding_note(-385 * last, 1.0, PROBE) == ""
    assert rounding_note(-385 * last, 1.01, PROBE) == "rounding"


def test_a_relative_scheme_moves_by_rounding() -> None:
    assert set(notes(shift_error, "rope").values()) == {"rounding"}
    assert set(notes(shift_error, "sinusoidal").values()) == {""}


@pytest.mark.parametrize("name", ["nope", "integer"])
def test_a_set_has_no_order_but_that_of_the_sums(name: str) -> None:
    said = notes(order_sensitivity, name)
    assert said == {("bidirectional", None): "rounding", ("causal", None): ""}
