"""Folders of records: those that cannot be used, shared ones and damaged files."""

import errno
import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.filesystem import (
    CALLS,
    CELL,
    Seam,
    body,
    cuts,
    flips,
    sealed,
    snapshot,
    within,
)

from posenc_compare.errors import ConfigError, StoreError
from posenc_compare.records.cells import Cell
from posenc_compare.records.load import load_records
from posenc_compare.records.store import Store
from posenc_compare.run.plan import missing
from posenc_compare.settings.canonical import canonical

KEY = CELL.key()
OTHER = replace(CELL, threads=2)
TOKEN = ".12.0123456789abcdef"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with a record of `OTHER`, which no fault may touch."""
    made = Store(tmp_path / "run", Seam())
    made.create()
    made.write(body(9.0, OTHER))
    return made


def value(store: Store, cell: Cell = CELL) -> float | None:
    """Return the number in a cell's record, read afresh, or None."""
    record = Store(store.folder).read(cell.key())
    return record["rows"][0]["value"] if record else None


def path_of(store: Store, cell: Cell = CELL) -> Path:
    return store.cells / f"{cell.key()}.json"


def litter(store: Store) -> list[str]:
    return [path.name for path in store.cells.glob(".*")]


def test_a_record_is_written_as_files_are_and_an_error_is_named(store: Store) -> None:
    store.files = Seam()
    store.write(body(1.0))
    assert store.files.calls == CALLS  # see test_files.py
    size = path_of(store).stat().st_size
    store.files = Seam(2, errno.ENOSPC)
    says = (
        rf"{store.folder}: must take a record of {size} bytes, got .Errno 28. [^\n]*$"
    )
    with pytest.raises(StoreError, match=says):
        store.write(body(2.0))
    assert (value(store), value(store, OTHER)) == (1.0, 9.0)


# Folders that cannot be used


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
@pytest.mark.parametrize("at", [1, 3, 4, 5, 6])
def test_a_folder_that_takes_no_files_is_refused_first(
    tmp_path: Path, number: int, at: int
) -> None:
    store = Store(tmp_path / "run", Seam(at, number))
    with pytest.raises(StoreError, match="must be a folder to write to, got"):
        store.create()
    store.files = Seam()
    store.create()
    assert store.files.calls == [name for name in CALLS if name != "write"]
    assert store.write(body()) == KEY


@pytest.mark.parametrize(
    ("made", "place", "says"),
    [
        ("run", "run", "must be a folder, got a file"),
        ("run", "run/inside", "must be a folder to write to, got"),
        ("", "/proc/none/run", "must be a folder to write to, got"),
        ("", "x" * 300, "must be a folder, got .*too long"),
        ("run/thesis.tex", "run", "must be empty or the folder of a run"),
        ("run/.git", "run", "must be empty or the folder of a run"),
        ("run/cells", "run", "must be a folder to write to, got"),
    ],
)
def test_a_folder_that_cannot_be_used_is_left_alone(
    tmp_path: Path, made: str, place: str, says: str
) -> None:
    if made:
        (tmp_path / made).parent.mkdir(exist_ok=True)
        (tmp_path / made).write_text("mine")
    before = snapshot(tmp_path)
    with pytest.raises(StoreError, match=says):
        Store(tmp_path / place).create()
    assert snapshot(tmp_path) == before


def test_reading_writes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(body())
    path_of(store, OTHER).write_text("damaged")
    before = snapshot(store.folder)
    reader = Store(store.folder)
    with pytest.warns(UserWarning, match="1 records left out, which are damaged"):
        assert len(load_records(store.folder)) == 1
    assert list(missing([CELL, OTHER], reader)) == [OTHER.key()]
    assert snapshot(store.folder) == before

    def refuse(path: Path) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr("os.listdir", refuse)
    with pytest.raises(StoreError, match=r"must be readable, got .*denied"):
        load_records(store.folder)


def test_a_folder_that_vanishes_is_not_made_again(store: Store) -> None:
    path_of(store).write_text("damaged")
    assert store.read(KEY) is None
    shutil.rmtree(store.folder)
    with pytest.raises(StoreError, match="must take a record of"):
        store.write(body())
    assert list(store.records()) == []
    assert store.read(KEY) is None
    assert not store.folder.exists()
    with pytest.raises(ConfigError, match="does not exist"):
        load_records(store.folder)


# Several runs in one folder


@pytest.mark.parametrize("at", range(1, len(CALLS)))
def test_two_runs_begin_in_one_folder(tmp_path: Path, at: int) -> None:
    store = Store(tmp_path / "run", Seam(at, Store(tmp_path / "run").create))
    store.create()
    assert litter(store) == []


# Listings, and files that are not records


def test_a_listing_that_is_late_costs_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.listdir(store.cells)  # noqa: PTH208
    store.write(body())
    after = os.listdir(store.cells)  # noqa: PTH208
    monkeypatch.setattr("os.listdir", lambda path: before)
    assert [record["key"] for record in store.records()] == [OTHER.key()]
    assert missing([CELL, OTHER], store) == {}
    monkeypatch.setattr("os.listdir", lambda path: after)
    path_of(store).unlink()
    assert len(list(store.records())) == 1
    assert store.damaged == []


@pytest.mark.parametrize(
    "name",
    [
        f".{KEY}{TOKEN}",
        ".nfs000000000123456700000001",
        f"{KEY}.json.tmp",
        f"{KEY}.json\n",
        f"{KEY[:-1]}.json",
        f"{KEY}0.json",
        f"{KEY.upper()}.json",
        "results.json",
    ],
)
def test_other_files_are_no_records(store: Store, name: str) -> None:
    (store.cells / name).write_text("{")
    reader = Store(store.folder)
    reader.create()
    assert len(list(reader.records())) == 1
    assert reader.damaged == []
    assert (store.cells / name).exists()


# Damaged records


def assert_computed_again(store: Store) -> None:
    """Show that the file of `CELL` is named, and its cell computed again."""
    path = path_of(store)
    reader = Store(store.folder)
    said: list[str] = []
    with within(5):
        assert len(load_records(store.folder, said.append)) == 1
    says = "1 records left out, which are damaged or of another version: "
    assert said == [f"{says}{path.name}; the same run computes them again"]
    with within(5):
        assert list(missing([CELL, OTHER], reader)) == [KEY]
    assert reader.damaged == [path.name]
    if not path.is_dir():
        reader.write(body(4.0))
        assert value(store) == 4.0


def test_any_cut_and_any_flipped_bit_of_a_record_is_noticed(store: Store) -> None:
    store.write(body())
    path = path_of(store)
    text = path.read_bytes()
    assert b"1e-05" in text
    assert b"\\u00e9" in text
    for one in (*cuts(text, len(text)), *flips(text, 1500)):
        path.write_bytes(one)
        reader = Store(store.folder)
        assert reader.read(KEY) is None, one
        assert reader.damaged == [path.name], one
    assert_computed_again(store)


def with_schema(**changes: Any) -> bytes:
    return canonical({"schema": 3, **body(), **changes})


FINE = with_schema()
DEEP = b"[" * 100_000 + b"]" * 100_000
# Bodies with a checksum that fits.
MALFORMED = {
    "no schema": canonical(body()),
    "no spec": canonical({"schema": 3}),
    "spec that is text": with_schema(spec="rope"),
    "spec of another cell": with_schema(spec=OTHER.spec().to_json()),
    "no status": canonical({"schema": 3, "spec": CELL.spec().to_json()}),
    "status that is a list": with_schema(status=[]),
    "list": b"[]",
    "number": b"5",
    "nothing": b"",
    "deep inside": FINE[:-1] + b',"zzz":' + DEEP + b"}",
    "keys twice": FINE[:-1] + b',"status":"failed"}',
    "NaN": FINE[:-1] + b',"zzz":NaN}',
    "infinity": FINE[:-1] + b',"zzz":[-Infinity]}',
    "number beyond all": FINE[:-1] + b',"zzz":1e999}',
    "order": b'{"zzz":1,' + FINE[1:],
    "space": FINE[:-1] + b" }",
    "no text": FINE[:-1] + b',"zzz":"\xff"}',
}
# Whole files.
OTHER_FILES = [
    b"",
    FINE,
    b'{"body":{}}',
    b"\x80\x04pickle",
    sealed(FINE).replace(b'"sha256":"', b'"sha256":"0', 1),
    sealed(FINE)[:-2] + b',"zzz":1}\n',
    sealed(FINE).decode().encode("utf-16"),
    sealed(FINE) * 2,
    json.dumps(json.loads(sealed(FINE)), indent=1).encode(),
    sealed(FINE) + bytes(1 << 24),
    *(sealed(with_schema(schema=schema)) for schema in (1, 4)),
]


@pytest.mark.parametrize("text", [*map(sealed, MALFORMED.values()), *OTHER_FILES])
def test_a_malformed_record_is_noticed(store: Store, text: bytes) -> None:
    path_of(store).write_bytes(text)
    assert_computed_again(store)


def test_what_the_malformed_ones_are_made_of_is_sound(store: Store) -> None:
    path_of(store).write_bytes(sealed(FINE))
    assert value(store) == 1.5
    assert len(load_records(store.folder)) == 2


def test_a_record_of_version_0_1_0_is_named(store: Store) -> None:
    spec = {n: v for n, v in body()["spec"].items() if n != "numbers"}
    key = store.write(body(spec=spec))
    with pytest.warns(UserWarning, match=f"of another version: {key}.json"):
        assert len(load_records(store.folder)) == 1


# Files that are not files


def test_a_folder_in_place_of_a_record_is_named(store: Store) -> None:
    path_of(store).mkdir()
    assert_computed_again(store)
    with pytest.raises(StoreError, match="must take a record"):
        store.write(body())
    assert litter(store) == []


# Times of files


def test_a_file_is_older_than_a_record_that_came_later(store: Store) -> None:
    shown = store.folder / "table.tex"
    assert store.newer(shown)  # there is none
    time.sleep(0.05)
    shown.write_text("shown")
    assert not store.newer(shown)
    # A part of the run that was computed elsewhere, last year.
    other, copy = store.folder / "other", store.cells / f"{'0' * 32}.json"
    shutil.copy2(path_of(store, OTHER), other)
    os.utime(other, (1, 1))
    time.sleep(0.05)
    shutil.copy2(other, copy)
    assert store.newer(shown)
    copy.unlink()
    assert not store.newer(shown)
    store.pack()
    assert store.newer(shown)
