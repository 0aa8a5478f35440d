"""What a record says of where it comes from, and what looking for that leaves alone."""

import os
import subprocess
from pathlib import Path

import pytest
import torch

from posenc_compare.records.cells import Cell
from posenc_compare.run import provenance as module
from posenc_compare.run.provenance import provenance
from posenc_compare.schemes import Variant
from posenc_compare.settings.probe import ProbeSetting

pytestmark = pytest.mark.usefixtures("forgetful")
CELL = Cell(Variant("nope"), "smoothness", ProbeSetting(), 1)


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = ["git", "-C", str(folder), *who, *words]
    subprocess.run(command, capture_output=True, check=True)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout that this package seems to be run from."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").write_text("a = 1\n")
    git(tmp_path, "init")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "Begin")
    monkeypatch.setattr(module, "PACKAGE", tmp_path / "package")
    return tmp_path


def test_a_checkout_is_looked_at_and_left_as_it_is(checkout: Path) -> None:
    index = checkout / ".git" / "index"
    os.utime(checkout / "package" / "a.py", (0, 0))  # what git would write down
    before = index.read_bytes(), index.stat().st_ino
    found = module._git()
    assert found["git_dirty"] is False
    assert len(str(found["git_commit"])) == 40
    assert (index.read_bytes(), index.stat().st_ino) == before


def test_a_change_of_the_package_is_noticed(checkout: Path) -> None:
    (checkout / "notes").write_text("x")
    assert module._git()["git_dirty"] is False
    (checkout / "package" / "b.py").write_text("b = 1\n")
    assert module._git()["git_dirty"] is True


def test_each_cell_has_its_own_peak_of_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peak = [0]
    monkeypatch.setattr(module, "_graphics", lambda: {"device": "H200"})
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: peak[0])
    monkeypatch.setattr(
        torch.cuda, "reset_peak_memory_stats", lambda: peak.__setitem__(0, 0)
    )
    cell = Cell(Variant("nope"), "smoothness", ProbeSetting(device="cuda"), 1)
    peak[0] = 7 << 30
    assert provenance(cell)["peak_device_memory_bytes"] == 7 << 30
    peak[0] = max(peak[0], 1 << 20)
    assert provenance(cell)["peak_device_memory_bytes"] == 1 << 20
    assert "peak_device_memory_bytes" not in provenance(CELL)
