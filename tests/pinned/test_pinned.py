"""No number changes while `NUMBERS` and the code of its own stay."""

import json
import math
import subprocess
import sys
from typing import Any

import pytest
from pinned.pins import FILE, arithmetic

from posenc_compare.source.own_code import NUMBERS

KEPT = json.loads(FILE.read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the numbers of today, from a process without plugins of other tests."""
    folder = tmp_path_factory.mktemp("pinned")
    command = [sys.executable, FILE.with_name("pins.py"), folder / "text"]
    subprocess.run(command, check=True, cwd=folder)
    whole: dict[str, dict[str, Any]] = json.loads((folder / "pins.json").read_text())
    return whole


def test_the_numbers_are_those_of_numbers(found: dict[str, dict[str, Any]]) -> None:
    assert KEPT["NUMBERS"] == NUMBERS, "python tests/pinned/pins.py writes them anew"
    new = found.keys() - KEPT["of"].keys()
    # Those of a new scheme are missed by `test_schemes_doc.py`.
    assert not [name for name in new if not name.startswith("attention of ")]


@pytest.mark.parametrize("name", KEPT["of"])
def test_a_number_moves_only_with_its_own_code_or_numbers(
    name: str, found: dict[str, dict[str, Any]]
) -> None:
    one, kept = found[name], KEPT["of"][name]
    why = (
        "shared code changed it: raise NUMBERS in posenc_compare/source/own_code.py"
        if one["code"] == kept["code"]
        else "its own code changed it"
    )
    why += "; python tests/pinned/pins.py writes the numbers anew"
    assert one["numbers"].keys() == kept["numbers"].keys(), why
    exact = kept["arithmetic"] == arithmetic()
    # Processors were seen to differ by 7e-15 in float64, and by 2.4e-7 after training.
    for what, value in one["numbers"].items():
        known = kept["numbers"][what]
        bound = 0.0 if exact else 1e-12 if name.startswith("attention") else 1e-5
        assert math.isclose(value, known, rel_tol=bound, abs_tol=bound), (
            f"{what}: {why}"
        )
