"""Packed records: read like loose ones, and lost by no crash, damage or other run."""

import errno
import lzma
from dataclasses import replace
from typing import Any

import pytest
from support.filesystem import CELL, Crash, Seam, body, cuts, flips

from posenc_compare.errors import StoreError
from posenc_compare.records import store as storing
from posenc_compare.records.load import load_records
from posenc_compare.records.store import Store
from posenc_compare.run.plan import missing

CELLS = [replace(CELL, setting=replace(CELL.setting, seed=seed)) for seed in range(6)]
WHOLE = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
RENAME = 5  # of the calls that write the packed file


@pytest.fixture
def store(tmp_path) -> Store:
    """Return a store with a loose record of every cell."""
    made = Store(tmp_path / "run")
    made.create()
    for seed, cell in enumerate(CELLS):
        made.write(body(float(seed), cell, family="bias", source="", label="rope"))
    return made


def loose(store: Store) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.cells.glob("*.json")}


def values(store: Store) -> list[Any]:
    """Return the number in each cell's record, read afresh."""
    reader = Store(store.folder)
    found = [reader.read(cell.key()) for cell in CELLS]
    return [record and record["rows"][0]["value"] for record in found]


def test_packed_records_are_read_like_loose_ones(store: Store) -> None:
    records = list(store.records())
    shown = load_records(store.folder, pytest.fail)
    store.pack()
    assert loose(store) == {}
    assert list(Store(store.folder).records()) == records
    assert load_records(store.folder, pytest.fail) == shown
    assert missing(CELLS, Store(store.folder)) == {}
    first = store.packed.read_bytes()
    store.pack()
    assert store.packed.read_bytes() == first  # the same records, the same file


def test_what_is_computed_beside_packed_records_is_merged(store: Store) -> None:
    store.pack()
    Store(store.folder).create()
    store.write(body(9.0, CELLS[2]))
    assert values(store) == [0.0, 1.0, 9.0, 3.0, 4.0, 5.0]
    assert len(list(Store(store.folder).records())) == 6
    store.pack()
    assert (loose(store), values(store)[2]) == ({}, 9.0)


def test_a_finished_run_packs_itself_and_goes_on(posenc, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("posenc_compare.records.store.MOST_LOOSE", 4)
    words = ["measure", "--schemes=nope", "--measures=smoothness", "--set=positions=8"]
    words += ["--set=width=16,heads=2", "--out", tmp_path / "run"]
    for seeds, left in (("3", 3), ("4", 0), ("6", 2)):
        assert posenc(*words, "--seeds", seeds).returncode == 0
        store = Store(tmp_path / "run")
        assert (len(loose(store)), len(store.keys())) == (left, int(seeds))
    table = posenc("table", store.folder).stdout
    store.pack()
    store.cells.rmdir()  # as in a checkout: git keeps no folder
    assert posenc("table", store.folder).stdout == table
    again = posenc(*words, "--seeds=6")
    assert (again.returncode, "6 cells, 0 to compute" in again.stderr) == (0, True)
    assert posenc("status", store.folder).returncode == 0


# Damage


def test_a_damaged_file_is_computed_again_and_packed(store: Store) -> None:
    store.pack()
    path = store.cells / f"{CELLS[0].key()}.json"
    path.write_text("{")
    reader = Store(store.folder)
    assert list(missing(CELLS, reader)) == [CELLS[0].key()]
    assert set(reader.damaged) == {path.name}
    store.pack()
    assert (path.exists(), values(store)[0]) == (True, None)
    store.write(body(0.0, CELLS[0]))
    store.pack()
    assert (loose(store), values(store)) == ({}, WHOLE)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b'"value":3.0', b'"value":3.5'),
        lambda text: text.replace(b'"value":3.0', b'"value":3.0\n'),
        lambda text: text.replace(CELLS[3].key().encode(), b"0" * 32),
        lambda text: text.replace(CELLS[3].key().encode(), b"x"),
    ],
)
def test_a_damaged_line_costs_its_own_record(store: Store, change: Any) -> None:
    store.pack()
    was = lzma.compress(change(lzma.decompress(store.packed.read_bytes())))
    store.packed.write_bytes(was)
    said: list[str] = []
    assert len(load_records(store.folder, said.append)) == 5
    assert len(said) == 1
    assert "records left out, which are damaged" in said[0]
    assert "cells.jsonl.xz" in said[0]
    assert values(store) == [0.0, 1.0, 2.0, None, 4.0, 5.0]
    reader = Store(store.folder)
    assert list(missing(CELLS, reader)) == [CELLS[3].key()]
    reader.write(body(3.0, CELLS[3]))
    reader.pack()
    assert values(store) == WHOLE


def test_a_packed_file_that_cannot_be_read_is_left_as_it_is(store: Store) -> None:
    store.pack()
    cut = store.packed.read_bytes()[:-40]
    store.packed.write_bytes(cut)
    store.write(body(0.0, CELLS[0]))
    with pytest.raises(StoreError, match="got a damaged cells"):
        Store(store.folder).pack()
    assert (store.packed.read_bytes(), len(loose(store))) == (cut, 1)


def test_a_file_cut_or_changed_anywhere_is_noticed(store: Store) -> None:
    store.pack()
    whole = store.packed.read_bytes()
    others = whole + whole, b"{}", lzma.compress(b"\n\n")
    for text in (*cuts(whole, 40), *flips(whole, 60), *others):
        store.packed.write_bytes(text)
        reader = Store(store.folder)
        found = {r["key"]: r["rows"][0]["value"] for r in reader.records()}
        assert reader.damaged, text[:20]
        wanted = dict(zip((c.key() for c in CELLS), WHOLE, strict=True))
        assert found.items() <= wanted.items()


def test_a_folder_in_place_of_the_file_is_named(store: Store) -> None:
    store.packed.mkdir()
    reader = Store(store.folder)
    assert len(list(reader.records())) == 6  # the loose ones
    assert reader.read("0" * 32) is None
    assert reader.damaged == [storing.ARCHIVE]


# Crashes, full disks, other runs


@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("act", [None, errno.ENOSPC])
def test_a_crash_or_a_full_disk_loses_nothing(
    store: Store, at: int, act: int | None
) -> None:
    with pytest.raises((Crash, StoreError)):
        Store(store.folder, Seam(at, act, "half")).pack()
    assert values(store) == WHOLE
    store.pack()
    assert (values(store), loose(store)) == (WHOLE, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [("PACKED", 99), ("write_file", None)],
)
def test_what_cannot_be_packed_stays_as_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    before = loose(store)
    monkeypatch.setattr(storing, "MOST_LOOSE", 6)
    monkeypatch.setattr(storing, name, value or fail)
    store.pack_finished()
    assert (loose(store), store.packed.exists()) == (before, False)


def test_a_record_that_another_run_writes_meanwhile_stays(store: Store) -> None:
    late = Seam(RENAME, lambda: store.write(body(9.0, CELLS[0])))
    Store(store.folder, late).pack()
    assert (values(store)[0], len(loose(store))) == (9.0, 1)


def test_a_run_sees_what_is_packed_while_it_runs(store: Store) -> None:
    reader = Store(store.folder)
    assert reader.read("0" * 32) is None
    store.pack()
    assert missing(CELLS, reader) == {}


def test_two_do_not_pack_at_once(store: Store) -> None:
    def second() -> None:
        with pytest.raises(StoreError, match="must let one process pack its records"):
            store.pack()

    seam = Seam(RENAME, second)
    Store(store.folder, seam).pack()
    assert (values(store), len(seam.calls)) == (WHOLE, 8)
