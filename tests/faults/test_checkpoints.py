"""Checkpoints: the last good one is used, whatever happens to files and machines."""

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save as to_bytes
from support.filesystem import Crash, Seam

from posenc_compare.errors import StoreError
from posenc_compare.train.checkpoints import Checkpoints, Stopped

KEY = "0123456789abcdef" * 2
WRITE = ["open", "write", "fsync", "close", "replace", "open", "fsync", "close"]
CALLS = ["unlink", *WRITE, *WRITE]  # data, then manifest
ANY = (lambda step, tensors: None, 1 << 30)  # takes whatever was kept
PUBLISHED = len(CALLS) - 3  # the manifest's rename
every_call = pytest.mark.parametrize("at", range(1, len(CALLS) + 1))


def tensors(step: int) -> dict[str, torch.Tensor]:
    """Return what a training of so many steps would keep."""
    return {"losses": torch.arange(step) / 7, "weight": torch.full((9, 9), step / 3)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with checkpoints of steps 10 and 20."""
    made = tmp_path / "run" / "ckpt" / KEY
    made.parent.mkdir(parents=True)
    for step in (10, 20):
        keep(made, step)
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


def generation(folder: Path, step: int) -> Path:
    (path,) = folder.glob(f"{step}-*.safetensors")
    return path


def held(folder: Path) -> list[int]:
    """Return the steps on disk; nothing but them and the manifest may be there."""
    names = {path.name for path in folder.iterdir()} - {"manifest.json"}
    return sorted(int(name.partition("-")[0]) for name in names)


# Crashes, full disks, and other errors of a file system


def test_a_checkpoint_is_kept_by_these_calls(folder: Path) -> None:
    # If this changes, `every_call` below no longer is every call.
    seam = Seam()
    keep(folder, 30, files=seam)
    assert seam.calls == CALLS
    assert held(folder) == [20, 30]


@pytest.mark.parametrize("when", ["before", "half", "after"])
@every_call
def test_a_crash_leaves_the_last_good_checkpoint(
    folder: Path, at: int, when: str
) -> None:
    with pytest.raises(Crash):
        keep(folder, 30, files=Seam(at, when=when))
    published = at >= PUBLISHED + (when == "before")
    assert resumed(folder) == (30 if published else 20, [])
    assert len(list(folder.glob("*.safetensors"))) <= 2
    keep(folder, 40)
    assert held(folder) == [30 if published else 20, 40]
    assert resumed(folder) == (40, [])


def test_crashes_in_a_row_fill_no_disk(folder: Path) -> None:
    for at in range(1, PUBLISHED):
        with pytest.raises(Crash):
            keep(folder, 100 + at, files=Seam(at))
        assert resumed(folder) == (20, [])
        assert len(list(folder.iterdir())) <= 4  # manifest, old, new, cut off


@pytest.mark.parametrize("at", range(1, len(CALLS)))
def test_a_crash_of_the_very_first_save_begins_from_zero(
    tmp_path: Path, at: int
) -> None:
    folder = tmp_path / "ckpt" / KEY
    with pytest.raises(Crash):
        keep(folder, 10, files=Seam(at))
    assert resumed(folder) == (10 if at > PUBLISHED - 1 else 0, [])
    keep(folder, 20)
    assert resumed(folder) == (20, [])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("when", ["before", "half"])
@every_call
def test_an_error_of_the_file_system_is_named_and_harms_nothing(
    folder: Path, at: int, number: int, when: str
) -> None:
    size = len(to_bytes(tensors(30)))
    says = f"{folder}: must take a checkpoint of {size} bytes, got .Errno {number}."
    with pytest.raises(StoreError, match=says):
        keep(folder, 30, files=Seam(at, number, when))
    step, refused = resumed(folder)
    assert step == (30 if at > PUBLISHED else 20) or (at, when) == (PUBLISHED, "half")
    assert refused == []
    assert not list(folder.glob(".*"))
    keep(folder, 40)
    assert held(folder) == [step, 40]
    assert resumed(folder) == (40, [])


@pytest.mark.parametrize("most", [1, 13, 64])
def test_short_writes_are_continued(folder: Path, most: int) -> None:
    keep(folder, 30, files=Seam(most=most))
    assert resumed(folder) == (30, [])


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


@pytest.mark.parametrize("theirs", [10, 30, 50])
@every_call
def test_another_run_may_save_at_any_time(folder: Path, at: int, theirs: int) -> None:
    keep(folder, 30, files=Seam(at, lambda: keep(folder, theirs)))
    assert resumed(folder)[0] in (10, 20, 30, theirs)
    assert len(list(folder.glob("*.safetensors"))) <= 3
    keep(folder, 60)
    assert resumed(folder) == (60, [])
    assert len(held(folder)) <= 2


# Damaged checkpoints


def flips(data: bytes, count: int) -> Iterator[bytes]:
    draw = random.Random(0)
    for _ in range(count):
        place = draw.randrange(len(data))
        flipped = data[place] ^ 1 << draw.randrange(8)
        yield data[:place] + bytes([flipped]) + data[place + 1 :]


def cuts(data: bytes, count: int) -> Iterator[bytes]:
    for part in range(count):
        yield data[: part * len(data) // count]


DAMAGE: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "cut": lambda data: cuts(data, 200),
    "bit flipped": lambda data: flips(data, 200),
    "end zeroed": lambda data: iter([data[:-200] + bytes(200)]),
    "longer": lambda data: iter([data + b"\0", data * 2]),
    "other tensors": lambda data: iter([to_bytes(tensors(21))]),
    "an older one": lambda data: iter([to_bytes(tensors(10))]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_checkpoint_is_refused_and_the_older_one_used(
    folder: Path, name: str
) -> None:
    path = generation(folder, 20)
    for damaged in DAMAGE[name](path.read_bytes()):
        path.write_bytes(damaged)
        says = "checkpoint of step 20: its checksum does not match"
        assert resumed(folder) == (10, [says])


def test_without_an_older_one_training_begins_from_zero(folder: Path) -> None:
    generation(folder, 20).write_bytes(b"")
    generation(folder, 10).unlink()
    step, (newer, older) = resumed(folder)
    assert step == 0
    assert newer == "checkpoint of step 20: its checksum does not match"
    assert older.startswith("checkpoint of step 10: [Errno 2] No such file")


@pytest.mark.parametrize("when", ["before", "after"])
@every_call
def test_a_crash_after_a_damaged_checkpoint_leaves_the_good_one(
    folder: Path, at: int, when: str
) -> None:
    generation(folder, 20).write_bytes(b"damaged")
    checkpoints = Checkpoints(folder, files=Seam(at, when=when))
    assert checkpoints.load(*ANY)[0] == 10
    with pytest.raises(Crash):
        checkpoints.save(30, tensors(30))
    assert resumed(folder)[0] in (10, 30)
    keep(folder, 40)
    assert resumed(folder)[0] == 40


def test_any_damage_of_a_manifest_is_noticed(folder: Path) -> None:
    path = folder / "manifest.json"
    text = path.read_bytes()
    damaged = [text[:length] for length in range(len(text))]
    damaged += [
        text[:place] + bytes([text[place] ^ 1 << bit]) + text[place + 1 :]
        for place in range(len(text))
        for bit in (0, 5, 7)
    ]
    for one in damaged:
        path.write_bytes(one)
        step, reasons = resumed(folder)
        assert (step, len(reasons)) == (0, 1), one


def test_files_of_others_are_left_alone(folder: Path) -> None:
    names = ["model.safetensors", "30.safetensors", ".nfs01", ".hidden.1.2", "x.pt"]
    for name in names:
        (folder / name).write_text("mine")
    keep(folder, 30)
    keep(folder, 40)
    assert all((folder / name).read_text() == "mine" for name in names)


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


def test_one_step_that_is_kept_twice_is_listed_once(folder: Path) -> None:
    for _ in range(3):
        keep(folder, 30)
    assert held(folder) == [30]
    assert resumed(folder) == (30, [])
    generation(folder, 30).unlink()
    assert len(resumed(folder)[1]) == 1
