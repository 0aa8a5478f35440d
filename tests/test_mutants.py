"""The planted faults of `mutants.py`, which takes minutes, can still be planted."""

import re
from collections import Counter
from pathlib import Path

import pytest
from mutants import FAULTS, ROOMS, ROOT, NoTestError, red, wrong
from planted import Fault

PACKAGE = ROOT / "posenc_compare"

each = pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.file}-{f.name}")


def files(room: str) -> list[Path]:
    return [path for pattern in ROOMS[room].FILES for path in PACKAGE.glob(pattern)]


def test_there_are_enough_and_each_has_its_name() -> None:
    assert len(FAULTS) >= 150
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@each
def test_the_line_is_there_once_and_can_be_wrong(fault: Fault) -> None:
    text = (PACKAGE / fault.file).read_text("utf-8")
    assert wrong(fault, text) != text


@each
def test_the_test_is_there(fault: Fault) -> None:
    file, _, test = fault.tests.partition("::")
    text = (ROOT / file).read_text("utf-8")
    assert not test or re.search(rf"^def {test}\(", text, re.MULTILINE)


def test_every_file_is_in_one_room() -> None:
    found = Counter(path for room in ROOMS for path in files(room))
    assert max(found.values()) == 1
    assert set(PACKAGE.rglob("*.py")) == set(found)
    for name, room in ROOMS.items():
        assert {PACKAGE / fault.file for fault in room.FAULTS} <= set(files(name))


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_no_room_has_less_than_a_fault_for_every_200_lines(room: str) -> None:
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in files(room))
    assert len(ROOMS[room].FAULTS) >= lines / 200


@pytest.mark.parametrize(
    ("code", "said", "name"),
    [
        (0, "2 passed", ""),
        (1, "FAILED a.py::test_b[c - d] - assert 1 == 2\n1 failed", "test_b"),
        (1, "FAILED a.py::test_b - ZeroDivisionError", "test_b"),
        (0, "FAILED rope:base=3::C04 - expected one", "C04"),
    ],
)
def test_a_kill_is_a_test_that_fails(code: int, said: str, name: str) -> None:
    assert red(code, said, (0, 1)) == name


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, "ERROR a.py::test_b - AssertionError"),  # of a fixture
        (1, "FAILED a.py::test_b - NameError: name 'c' is not defined"),
        (1, "FAILED a.py::test_b - PluginError: cleanly, got ImportError: no"),
        (2, "ERROR a.py - SyntaxError\nInterrupted: 1 error during collection"),
        (4, "ERROR: not found: a.py::test_b"),
        (5, "no tests ran"),
    ],
)
def test_what_is_no_failure_of_a_test_is_no_kill(code: int, said: str) -> None:
    with pytest.raises(NoTestError):
        red(code, said, (0, 1))


@pytest.mark.parametrize(("old", "new"), [("b", "c"), ("a", "b"), ("= 1", "= (")])
def test_what_cannot_be_planted_is_no_kill(old: str, new: str) -> None:
    with pytest.raises(NoTestError):
        wrong(Fault("a.py", "name", old, new, "tests"), "a = 1\na = 2\n")
