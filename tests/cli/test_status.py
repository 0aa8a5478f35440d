"""The commands that look at records one by one, on records made by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.records import record, stored


@pytest.mark.parametrize(
    ("status", "code"), [("ok", 0), ("unsupported", 0), ("failed", 1), ("lost", 1)]
)
def test_status_counts_what_went_wrong(
    posenc: Any, tmp_path: Path, status: str, code: int
) -> None:
    folder = stored(tmp_path, [record(), record("alibi", status=status)])
    done = posenc("status", folder, "--format", "json")
    (counts,) = json.loads(done.stdout)
    wanted = dict.fromkeys(("ok", "unsupported", "failed", "lost"), 0) | {"ok": 1}
    wanted[status] += 1
    assert counts == {"measure": "shift_error", **wanted}
    assert done.returncode == code
    assert (f"{status}: alibi shift_error seed 0" in done.stderr) == bool(code)


def test_two_folders_are_compared_cell_by_cell(posenc: Any, tmp_path: Path) -> None:
    same = record(seed=2)
    one = stored(tmp_path / "one", [same, record(value=1.0), record("alibi")])
    other = stored(tmp_path / "other", [same, record(value=2.0), record("nope")])
    done = posenc("diff", one, other, "--format", "json")
    found = {row["cell"]: row["difference"] for row in json.loads(done.stdout)}
    assert found == {
        "alibi shift_error seed 0": f"only in {one}",
        "nope shift_error seed 0": f"only in {other}",
        "rope shift_error seed 0": "1 numbers, by up to 5.0e-01 relative (gain  None)",
    }
    assert done.returncode == 1
    assert posenc("diff", one, one).returncode == 0
