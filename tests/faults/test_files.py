"""A written file is whole or absent, whatever happens as it is written."""

import errno
from pathlib import Path

import pytest
from support.filesystem import CALLS, Crash, Seam

from posenc_compare.validate import write_file

OLD, NEW, NEXT = b"old" * 99, b"new" * 200, b"next"
RENAME = CALLS.index("replace") + 1  # of the calls, from 1
every_call = pytest.mark.parametrize("at", range(1, len(CALLS) + 1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    return path


def written_again(path: Path) -> bool:
    write_file(path, NEXT, Seam())
    return path.read_bytes() == NEXT


def test_these_calls_write_a_file(path: Path) -> None:
    # If this changes, `every_call` below no longer is every call.
    seam = Seam()
    write_file(path, NEW, seam)
    assert seam.calls == CALLS
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize("old", [OLD, None])
@every_call
def test_a_crash_leaves_the_old_file_or_the_new_one(
    path: Path, at: int, old: bytes | None, when: str
) -> None:
    if old is None:
        path.unlink()
    with pytest.raises(Crash):
        write_file(path, NEW, Seam(at, when=when))
    published = at >= RENAME + (when == "before")
    found = path.read_bytes() if path.exists() else None
    assert found == (NEW if published else old)
    assert written_again(path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("when", ["before", "half"])
@every_call
def test_an_error_of_the_file_system_harms_nothing(
    path: Path, at: int, number: int, when: str
) -> None:
    with pytest.raises(OSError, match=rf"Errno {number}\b"):
        write_file(path, NEW, Seam(at, number, when))
    published = at > RENAME or (at == RENAME and when == "half")
    assert path.read_bytes() == (NEW if published else OLD)
    assert [*path.parent.iterdir()] == [path]
    assert written_again(path)


@pytest.mark.parametrize("most", [1, 13, 100, 4096])
def test_short_writes_are_continued(path: Path, most: int) -> None:
    seam = Seam(most=most)
    write_file(path, NEW, seam)
    assert seam.calls.count("write") == -(-len(NEW) // most)
    assert path.read_bytes() == NEW


@every_call
def test_another_run_may_write_it_at_any_time(path: Path, at: int) -> None:
    write_file(path, NEW, Seam(at, lambda: written_again(path)))
    assert path.read_bytes() == (NEW if at <= RENAME else NEXT)
    assert [*path.parent.iterdir()] == [path]
