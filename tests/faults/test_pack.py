"""Packed records: read like loose ones, and lost by no crash, damage or other run."""

import errno
import lzma
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.filesystem import CELL, Crash, Seam, become, body, sealed, snapshot, within

from posenc_compare.analysis.core.files import write_file
from posenc_compare.analysis.engine.plan import missing
from posenc_compare.analysis.records import pack as packing
from posenc_compare.analysis.records import packed
from posenc_compare.analysis.records.load import load_records
from posenc_compare.analysis.records.pack import pack, pack_finished
from posenc_compare.analysis.records.store import Store
from posenc_compare.errors import ConfigError, StoreError

CELLS = [replace(CELL, setting=replace(CELL.setting, seed=seed)) for seed in range(6)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
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


WHOLE = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_packed_records_are_read_like_loose_ones(store: Store) -> None:
    records, shown = list(store.records()), load(store)
    done = pack(store.folder)
    assert (done.records, done.damaged, loose(store)) == (6, [], {})
    assert done.size == store.packed.stat().st_size
    assert list(Store(store.folder).records()) == records
    assert load(store) == shown
    assert missing(CELLS, Store(store.folder)) == {}


def load(store: Store) -> list[Any]:
    with within(20):
        return load_records(store.folder, pytest.fail)


def test_the_same_records_make_the_same_file(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    other.create()
    for name, text in reversed(loose(store).items()):
        (other.cells / name).write_bytes(text)
    for folder in (store.folder, other.folder):
        pack(folder)
    first = store.packed.read_bytes()
    assert first == other.packed.read_bytes()
    pack(store.folder)
    assert store.packed.read_bytes() == first


def test_what_is_packed_is_reported_computed_beside_and_merged(store: Store) -> None:
    pack(store.folder)
    Store(store.folder).create()
    store.write(body(9.0, CELLS[2]))
    assert values(store) == [0.0, 1.0, 9.0, 3.0, 4.0, 5.0]
    assert len(list(Store(store.folder).records())) == 6
    pack(store.folder)
    assert (loose(store), values(store)[2]) == ({}, 9.0)


def test_a_command_reads_a_packed_folder_and_goes_on_in_it(posenc, tmp_path) -> None:
    words = ["measure", "--schemes=nope", "--measures=smoothness", "--set=positions=32"]
    words += ["--set=width=16,heads=2", "--out", tmp_path / "run"]
    assert posenc(*words).returncode == 0
    table = posenc("table", tmp_path / "run").stdout
    assert pack(tmp_path / "run").records == 1
    (tmp_path / "run" / "cells").rmdir()  # as in a checkout: git keeps no folder
    assert posenc("table", tmp_path / "run").stdout == table
    again = posenc(*words)
    assert (again.returncode, "1 cells, 0 to compute" in again.stderr) == (0, True)
    assert posenc("status", tmp_path / "run").returncode == 0


def test_a_finished_run_with_many_records_packs_itself(posenc, tmp_path) -> None:
    words = ["measure", "--schemes=nope", "--measures=smoothness", "--set=positions=8"]
    words += ["--set=width=16,heads=2", "--out", tmp_path / "run"]
    for seeds, left in (("63", 63), ("64", 0), ("66", 2)):
        assert posenc(*words, "--seeds", seeds).returncode == 0
        store = Store(tmp_path / "run")
        assert (len(loose(store)), len(store.keys())) == (left, int(seeds))


def test_what_cannot_be_packed_stays_as_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(packing, "MANY", 6)
    monkeypatch.setattr(packing, "write_file", fail)
    assert pack_finished(store) == []
    assert (len(loose(store)), values(store)) == (6, WHOLE)


def test_a_damaged_file_leaves_the_packed_record(store: Store) -> None:
    pack(store.folder)
    path = store.cells / f"{CELLS[0].key()}.json"
    path.write_text("{")
    reader = Store(store.folder)
    assert missing(CELLS, reader) == {}
    assert reader.set_aside() == [path.name]
    assert values(store) == WHOLE


# Damage


def repacked(store: Store, change: Any) -> None:
    text = lzma.decompress(store.packed.read_bytes())
    store.packed.write_bytes(lzma.compress(change(text)))


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
    pack(store.folder)
    repacked(store, change)
    said: list[str] = []
    assert len(load_records(store.folder, said.append)) == 5
    assert len(said) == 1
    assert "damaged records left out: cells.jsonl.xz" in said[0]
    assert values(store) == [0.0, 1.0, 2.0, None, 4.0, 5.0]
    reader = Store(store.folder)
    assert list(missing(CELLS, reader)) == [CELLS[3].key()]
    assert reader.set_aside() == []
    reader.write(body(3.0, CELLS[3]))
    was = store.packed.read_bytes()
    assert pack(store.folder).records == 6
    assert values(store) == WHOLE
    kept = list(store.quarantine.glob("*"))
    assert [path.read_bytes() for path in kept] in ([was], [])


def test_a_file_cut_or_changed_anywhere_is_told(store: Store) -> None:
    pack(store.folder)
    whole, rng = store.packed.read_bytes(), random.Random(0)
    texts = [whole[:length] for length in range(0, len(whole), 37)]
    for _ in range(60):
        place = rng.randrange(len(whole))
        flipped = whole[place] ^ 1 << rng.randrange(8)
        texts.append(whole[:place] + bytes([flipped]) + whole[place + 1 :])
    texts += [whole + b"x", whole + whole, b"", b"{}", lzma.compress(b"\n\n")]
    for text in texts:
        store.packed.write_bytes(text)
        reader = Store(store.folder)
        found = {r["key"]: r["rows"][0]["value"] for r in reader.records()}
        assert reader.damaged, text[:20]
        wanted = dict(zip((c.key() for c in CELLS), WHOLE, strict=True))
        assert found.items() <= wanted.items()


def test_a_packed_file_of_endless_text_is_not_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "LONG", 1 << 22)
    lines = b"x" * 999 + b"\n"
    for bomb in (bytes(1 << 26), lines * (1 << 14)):
        store.packed.write_bytes(lzma.compress(bomb, preset=1))
        with within(10):
            reader = Store(store.folder)
            assert len(list(reader.records())) == 6  # the loose ones
        assert packed.NAME in reader.damaged
        assert len(reader.damaged) < 5000


ENDLESS = """
import resource, sys
from pathlib import Path
from posenc_compare.analysis.records.store import Store
resource.setrlimit(resource.RLIMIT_DATA, (1 << 28, 1 << 28))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
store = Store(Path(sys.argv[1]))
print(len(list(store.records())), len(store.damaged))
"""


@pytest.mark.parametrize("line", [b"\n", b"x\n", b"{}\n"])
def test_a_packed_file_of_endless_lines_costs_little(store: Store, line: bytes) -> None:
    packer = lzma.LZMACompressor()
    pieces = [packer.compress(line * ((1 << 20) // len(line))) for _ in range(510)]
    store.packed.write_bytes(b"".join([*pieces, packer.flush()]))
    assert store.packed.stat().st_size < 80_000
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS, store.folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["6", str(packed.LINES + 1)], done.stderr


def test_no_more_lines_are_packed_than_are_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (packed, packing):
        monkeypatch.setattr(module, "LINES", 5)
    before = loose(store)
    with pytest.raises(StoreError, match="must have at most 5 records"):
        pack(store.folder)
    assert (loose(store), store.packed.exists()) == (before, False)
    monkeypatch.setattr(packing, "LINES", 6)
    with pytest.raises(StoreError, match="must read as it was written"):
        pack(store.folder)
    assert loose(store) == before
    reader = Store(store.folder)
    assert len(reader.lines()) == 5
    assert reader.damaged == [packed.NAME]


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "socket", "folder"])
def test_only_a_regular_file_is_read(store: Store, tmp_path: Path, kind: str) -> None:
    pack(store.folder)
    become(store.packed, kind, tmp_path / "outside")
    before = snapshot(tmp_path / "outside")
    with within(5):
        reader = Store(store.folder)
        assert list(reader.records()) == []
        assert reader.damaged == [packed.NAME]
    assert snapshot(tmp_path / "outside") == before


# Crashes, full disks, other runs


@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("act", [None, errno.ENOSPC])
def test_a_crash_or_a_full_disk_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, at: int, act: int | None
) -> None:
    seam = Seam(at, act, "half")
    monkeypatch.setattr(
        packing, "write_file", lambda path, data: write_file(path, data, seam)
    )
    with pytest.raises((Crash, StoreError)):
        pack(store.folder)
    assert values(store) == WHOLE
    monkeypatch.undo()
    pack(store.folder)
    assert (values(store), loose(store)) == (WHOLE, {})


def test_a_record_that_another_run_writes_meanwhile_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(path: Path, data: bytes) -> None:
        write_file(path, data)
        store.write(body(9.0, CELLS[0]))

    monkeypatch.setattr(packing, "write_file", late)
    pack(store.folder)
    assert values(store)[0] == 9.0
    assert len(loose(store)) == 1


def test_a_run_sees_what_is_packed_while_it_runs(store: Store) -> None:
    reader = Store(store.folder)
    assert reader.read("0" * 32) is None
    pack(store.folder)
    assert missing(CELLS, reader) == {}


def test_two_do_not_pack_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def second(path: Path, data: bytes) -> None:
        with pytest.raises(StoreError, match="one process at a time"):
            pack(store.folder)
        write_file(path, data)

    monkeypatch.setattr(packing, "write_file", second)
    assert pack(store.folder).records == 6


def test_what_cannot_be_packed_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds none"):
        pack(tmp_path / "empty")
    with pytest.raises(StoreError, match="must be a folder"):
        pack(tmp_path / "missing")


def test_a_sealed_text_of_other_bytes_is_no_record(store: Store) -> None:
    text = sealed(b'{"a":1}')
    store.packed.write_bytes(packed.packed({"0" * 32: text}))
    reader = Store(store.folder)
    assert reader.read("0" * 32) is None
    assert reader.damaged == [f"{packed.NAME} {'0' * 32}"]
