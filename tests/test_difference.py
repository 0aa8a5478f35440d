"""How two records differ, in words."""

from dataclasses import replace
from typing import Any

import pytest
from support.records import fact, read, row
from support.records import record as body

from posenc_compare.records.diff import difference, paired, same_cell
from posenc_compare.records.record import Record


def record(*given: Any, **changes: Any) -> Record:
    return read(body(*given, **changes))


def test_records_that_differ_in_times_alone_do_not_differ() -> None:
    made = {"started": "2027"}
    later = replace(record(), provenance=made, key="0", label="other")
    assert difference(record(), later) == []


@pytest.mark.parametrize(
    ("value", "said"),
    [(2.0, "7.5e-01"), (-8.0, "2.0e+00"), (-32.0, "1.2e+00"), (None, "inf")],
)
def test_numbers_are_compared_relative_to_the_larger(
    value: float | None, said: str
) -> None:
    one, other = record(value=8.0), record(value=value)
    wanted = [f"1 numbers, by up to {said} relative (gain  None)"]
    assert difference(one, other) == difference(other, one) == wanted


def test_what_records_were_made_from_comes_before_what_came_out() -> None:
    one, other = record(dtype="float32"), record(status="lost", torch="3.0")
    assert difference(one, other) == [
        "setting.dtype: float32 and float64",
        "torch: 2.13 and 3.0",
        "status: ok and lost",
    ]


def test_the_first_loss_tells_whether_trainings_began_alike() -> None:
    one, other = record(value=1.0), record(value=2.0)
    one = replace(one, arrays={"training_bits": [8.0]})
    other = replace(other, arrays={"training_bits": [6.0]})
    assert difference(one, other)[-1] == ("loss of the first step, by 2.5e-01 relative")
    other = replace(other, arrays={"training_bits": [8.0, 7.0]})
    assert len(difference(one, other)) == 1
    assert difference(one, replace(other, rows=one.rows)) == ["text or arrays"]


def test_a_cell_is_the_same_wherever_it_was_answered() -> None:
    there = record(device="cuda", torch="3.0", numbers=2, threads=8, version=2)
    assert same_cell(record()) == same_cell(there)
    others = record("alibi"), record(seed=1), record(dtype="float32")
    for other in (*others, record(measure="smoothness")):
        assert same_cell(record()) != same_cell(other)


def test_numbers_that_no_machine_repeats_are_not_compared() -> None:
    bodies = [body(value=1.0), body(value=2.0)]
    for made in bodies:
        made["quantities"]["gain"]["repeatable"] = False
    one, other = map(read, bodies)
    assert difference(one, other) == []
    assert difference(one, record(status="lost")) == ["status: ok and lost"]
    for made, value in zip(bodies, (4.0, 5.0), strict=True):
        made["quantities"]["kept"] = {**fact(), "name": "kept"}
        made["rows"].append(row(value, quantity="kept"))
    assert difference(*map(read, bodies)) == [
        "1 numbers, by up to 2.0e-01 relative (kept  None)"
    ]


@pytest.mark.parametrize("changed", range(2))
@pytest.mark.parametrize("made", [{"threads": 8}, {"version": 2}, {"torch": "3.0"}])
def test_a_cell_with_two_records_has_both_compared(
    made: dict[str, Any], changed: int
) -> None:
    folder = [record(), record(**made)]
    other = [replace(one, rows=one.rows) for one in folder]
    row = replace(other[changed].rows[0], value=123.0)
    other[changed] = replace(other[changed], rows=(row,))
    said = [difference(a, b) for a, b in paired(folder, other) if a and b]
    assert sorted(said) == [[], ["1 numbers, by up to 9.9e-01 relative (gain  None)"]]


def test_numbers_of_all_cases_and_places_are_compared() -> None:
    def of(*values: float) -> Record:
        one = body()
        places = (("p", 1.0), ("p", 2.0), ("q", 1.0))
        one["rows"] = [
            row(value, case=case, x=x)
            for value, (case, x) in zip(values, places, strict=True)
        ]
        return Record.from_json(one)

    said = difference(of(1, 2, 3), of(1.1, 3, 3))
    assert said == ["2 numbers, by up to 3.3e-01 relative (gain p 2.0)"]
    assert difference(of(1, 2, 3), of(1, 2, 4))[0].endswith(
        "2.5e-01 relative (gain q 1.0)"
    )


def test_options_make_another_question() -> None:
    one, other = body(), body()
    other["spec"]["scheme"]["options"] = {"base": 5.0}
    other["key"] = "f" * 32
    pairs = paired([Record.from_json(one)], [Record.from_json(other)])
    assert sorted((a is None, b is None) for a, b in pairs) == [
        (False, True),
        (True, False),
    ]


def test_cells_of_other_settings_are_compared_after_those_of_the_same() -> None:
    one, other = record(seed=1), record(seed=1, dtype="float32")
    assert [*paired([one], [other])] == [(one, other)]
    assert difference(one, other)[0] == "setting.dtype: float64 and float32"
    assert (one, one) in paired([one], [other, one])
    far = record(seed=2, dtype="float32")
    assert [*paired([one], [far])] == [(one, None), (None, far)]
    # Several of one scheme: those whose varied settings are equal, in any order.
    folder = [record(seed=1, positions=n) for n in (8, 16)]
    narrow = [record(seed=1, positions=n, dtype="float32") for n in (16, 8, 32)]
    assert [*paired(folder, narrow)] == [
        (folder[0], narrow[1]),
        (folder[1], narrow[0]),
        (None, narrow[2]),
    ]
