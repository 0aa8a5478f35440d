"""Checkpoints: the last one is whole, whatever happens to files and machines."""

import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save as to_bytes
from support.filesystem import CALLS, Crash, Seam, cuts, flips

from posenc_compare.errors import StoreError
from posenc_compare.train.checkpoints import FILE_NAME, Checkpoints, Stopped

KEY = "0123456789abcdef" * 2
ANY = (lambda step, tensors: None, 1 << 30)  # takes whatever was kept
PUBLISHED = len(CALLS) - 3  # the rename
every_call = pytest.mark.parametrize("at", range(1, len(CALLS) + 1))


def tensors(step: int) -> dict[str, torch.Tensor]:
    """Return what a training of so many steps would keep."""
    return {"losses": torch.arange(step) / 7, "weight": torch.full((9, 9), step / 3)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a checkpoint of step 20."""
    made = tmp_path / "run" / "ckpt" / KEY
    made.parent.mkdir(parents=True)
    keep(made, 20)
    return made


def keep(folder: Path, step: int, **options: Any) -> None:
    Checkpoints(folder, **{"files": Seam(), **options}).save(step, tensors(step))


def resumed(folder: Path) -> tuple[int, list[str]]:
    """Return the step that a new process goes on from, and what it refused."""
    checkpoints = Checkpoints(folder)
    step, found = checkpoints.load(*ANY)
    wanted = tensors(step) if step else {}
    assert checkpoints.resumed_from == step
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    return step, checkpoints.refused


def held(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


# Crashes, full disks, and other errors of a file system


def test_a_checkpoint_is_written_as_files_are_and_an_error_is_named(
    folder: Path,
) -> None:
    seam = Seam()
    keep(folder, 30, files=seam)
    assert seam.calls == CALLS  # see test_files.py
    size = len(to_bytes(tensors(40))) + 8
    says = f"{folder}: must take a checkpoint of {size} bytes, got .Errno 28."
    with pytest.raises(StoreError, match=says):
        keep(folder, 40, files=Seam(2, errno.ENOSPC))
    assert resumed(folder) == (30, [])


def test_crashes_in_a_row_fill_no_disk(folder: Path) -> None:
    for at in range(1, PUBLISHED):
        with pytest.raises(Crash):
            keep(folder, 100 + at, files=Seam(at))
        assert resumed(folder) == (20, [])
        assert len(held(folder)) <= 2  # the old one, and what was cut off
    keep(folder, 200)
    assert held(folder) == [FILE_NAME]


@pytest.mark.parametrize("at", range(len(CALLS) + 1))
def test_a_run_that_vanishes_is_named_and_not_made_again(folder: Path, at: int) -> None:
    run = folder.parent.parent
    seam = Seam(at, lambda: shutil.rmtree(run))
    if at == 0:
        shutil.rmtree(run)
    if at > PUBLISHED + 1:  # it was complete
        keep(folder, 30, files=seam)
    else:
        with pytest.raises(StoreError, match="run: must be there, and is gone"):
            keep(folder, 30, files=seam)
    assert not run.exists()


def test_a_file_in_place_of_the_folder_is_named(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("mine")
    assert resumed(folder)[0] == 0
    with pytest.raises(StoreError, match="must take a checkpoint"):
        keep(folder, 30)
    assert folder.read_text() == "mine"


# Two runs that train one cell


@every_call
def test_another_run_may_finish_the_cell_at_any_time(folder: Path, at: int) -> None:
    keep(folder, 30, files=Seam(at, lambda: shutil.rmtree(folder)))
    assert resumed(folder)[0] == 0
    keep(folder, 40)
    assert resumed(folder) == (40, [])


# Damaged checkpoints


DAMAGE: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "cut": lambda data: cuts(data, 200),
    "bit flipped": lambda data: flips(data, 200),
    "end zeroed": lambda data: iter([data[:-200] + bytes(200)]),
    "longer": lambda data: iter([data + b"\0", data * 2]),
    "other tensors": lambda data: iter([to_bytes(tensors(21))]),
    "another step": lambda data: iter([data[:39] + b"\x05" + data[40:]]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_checkpoint_is_refused(folder: Path, name: str) -> None:
    path = folder / FILE_NAME
    for damaged in DAMAGE[name](path.read_bytes()):
        path.write_bytes(damaged)
        assert resumed(folder) == (0, ["checkpoint: its checksum does not match"])
    keep(folder, 30)
    assert resumed(folder) == (30, [])


def test_a_checkpoint_of_another_training_is_refused(folder: Path) -> None:
    other = folder.with_name("f" * 32)
    shutil.copytree(folder, other)
    assert resumed(other) == (0, ["checkpoint: its checksum does not match"])


def test_files_of_others_are_left_alone(folder: Path) -> None:
    names = ["model.safetensors", "30.safetensors", ".nfs01", ".hidden.1.2", "x.pt"]
    for name in names:
        (folder / name).write_text("mine")
    keep(folder, 30)
    keep(folder, 40)
    assert all((folder / name).read_text() == "mine" for name in names)


def test_what_holds_no_tensors_is_refused_whatever_its_checksum(folder: Path) -> None:
    data = (5).to_bytes(8) + b"no tensors"
    digest = hashlib.sha256(KEY.encode() + data).digest()
    (folder / FILE_NAME).write_bytes(digest + data)
    step, (refused,) = resumed(folder)
    assert step == 0
    assert refused.startswith("checkpoint of step 5: ")


# What a training does with all this


def test_nothing_is_kept_without_a_folder() -> None:
    checkpoints = Checkpoints(interval=0)
    assert not checkpoints.due()
    checkpoints.save(1, tensors(1))
    assert checkpoints.load(*ANY) == (0, {})


def test_one_that_is_asked_to_stop_saves_first(folder: Path) -> None:
    checkpoints = Checkpoints(folder, stop=lambda: True)
    assert checkpoints.due()
    with pytest.raises(Stopped):
        checkpoints.save(30, tensors(30))
    assert resumed(folder) == (30, [])
    with pytest.raises(Stopped):
        Checkpoints(stop=lambda: True).save(30, tensors(30))


def test_checkpoints_are_due_by_a_clock_that_no_one_sets(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 5.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("time.time", lambda: 1e12)
    checkpoints = Checkpoints(folder, interval=60.0, files=Seam())
    assert not checkpoints.due()
    now = 64.9
    assert not checkpoints.due()
    now = 65.0
    assert checkpoints.due()
    checkpoints.save(30, tensors(30))
    assert not checkpoints.due()
