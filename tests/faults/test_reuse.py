"""Records copied from other folders: to the byte, and only those that stay true."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.filesystem import CELL, body

from posenc_compare.errors import StoreError
from posenc_compare.records.store import Store, copy_records, find_records

CELLS = [replace(CELL, setting=replace(CELL.setting, seed=seed)) for seed in range(4)]
KEYS = [cell.key() for cell in CELLS]


def folder(path: Path, **seeds: dict[str, object]) -> Store:
    """Return a store of records; `s1=dict(...)` is of seed 1, with such parts."""
    store = Store(path)
    store.create()
    facts = {"family": "bias", "source": "", "label": "rope"}
    for name, parts in seeds.items():
        seed = int(name[1:])
        store.write({**body(float(seed), CELLS[seed], **facts), **parts})
    return store


def timed(seed: int) -> dict[str, object]:
    """Return the quantities of a record whose number another day would change."""
    found = body(float(seed), CELLS[seed])["quantities"]
    return {name: {**facts, "repeatable": False} for name, facts in found.items()}


def test_what_came_out_well_is_copied_and_nothing_else(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", s0={}, s1={"status": "failed"}, s2={})
    two = folder(tmp_path / "two", s1={}, s3={"quantities": timed(3)})
    (one.cells / f"{KEYS[2]}.json").write_text("{")
    held = find_records(KEYS, [one.folder, two.folder])
    assert {key: store.folder.name for key, store in held.items()} == {
        KEYS[0]: "one",
        KEYS[1]: "two",
    }


@pytest.mark.parametrize("packed", [False, True])
def test_a_copy_has_every_byte(tmp_path: Path, packed: bool) -> None:
    one, new = folder(tmp_path / "one", s0={}, s1={}), folder(tmp_path / "new")
    texts = {path.name: path.read_bytes() for path in one.cells.glob("*.json")}
    if packed:
        one.pack()
    copy_records(find_records(KEYS, [one.folder]), new)
    assert {path.name: path.read_bytes() for path in new.cells.glob("*")} == texts


def test_a_record_that_went_meanwhile_is_left_to_be_computed(tmp_path: Path) -> None:
    one, new = folder(tmp_path / "one", s0={}, s1={}), folder(tmp_path / "new")
    held = find_records(KEYS, [one.folder])
    (one.cells / f"{KEYS[0]}.json").unlink()
    copy_records(held, new)
    assert [record["key"] for record in new.records()] == [KEYS[1]]


def test_a_folder_that_takes_no_copy_is_named(tmp_path: Path) -> None:
    held = find_records(KEYS, [folder(tmp_path / "one", s0={}).folder])
    with pytest.raises(StoreError, match=r"new: must take a record of \d+ bytes, got"):
        copy_records(held, Store(tmp_path / "new"))


def test_a_new_folder_trains_no_baseline_again(posenc, tmp_path: Path) -> None:
    small = ["--set=positions=32,width=16,heads=2", "--seeds=1"]
    words = ["measure", "--measures=smoothness,uniqueness", *small]
    old, new = tmp_path / "old", tmp_path / "new"
    assert posenc(*words, "--schemes=nope,rope", "--out", old).returncode == 0
    more = [*words, "--schemes=nope,rope,alibi", "--out", new, "--reuse", old]
    plan = json.loads(posenc(*more, "--dry-run", "--format=json").stdout)
    copied = f"copied from {old}"
    assert [row["state"] for row in plan] == 2 * [copied, copied, "to compute"]
    done = posenc(*more)
    assert "6 cells, 4 copied, 2 to compute" in done.stderr
    for path in (old / "cells").glob("*.json"):
        assert (new / "cells" / path.name).read_bytes() == path.read_bytes()
    assert "6 cells, 0 copied, 0 to compute" in posenc(*more).stderr


def test_a_folder_without_records_is_refused_before_anything_is_made(
    posenc, tmp_path: Path
) -> None:
    words = ["measure", "--schemes=nope", "--measures=smoothness", "--seeds=1"]
    new = tmp_path / "new"
    done = posenc(*words, "--out", new, "--reuse", tmp_path / "none")
    assert (done.returncode, new.exists()) == (2, False)
    assert "none: must be the folder of a run, and holds no records" in done.stderr
