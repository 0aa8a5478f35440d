"""Files that others planted are read as data, or not at all, and never run.

`ruff check` bans what could run them (`pyproject.toml`).
"""

import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.filesystem import CELL, body, sealed

from posenc_compare.records.load import load_records
from posenc_compare.records.store import Store
from posenc_compare.run.plan import missing
from posenc_compare.settings.canonical import canonical
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.checkpoints import NAME, Checkpoints


class Payload:
    """A pickle that makes a folder where it is read."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.sentinel),)


PLANTED = ["planted.pt", "planted.pkl", "planted.npy", "planted.pth", "planted.py"]


def test_planted_files_are_never_run(tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    trap = pickle.dumps(Payload(sentinel))
    pickle.loads(trap)
    sentinel.rmdir()  # it works
    array = (
        b"\x93NUMPY\x01\x00F\x00{'descr': '|O', 'fortran_order': False, 'shape': ()}"
    )
    traps = {
        "planted.npy": array.ljust(80) + trap,
        "planted.py": f"import os\nos.mkdir({str(sentinel)!r})\n".encode(),
    }
    store = Store(tmp_path / "run")
    store.create()
    checkpoints = store.checkpoints / CELL.key()
    checkpoints.mkdir(parents=True)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "text").write_text("text")
    for folder in (store.folder, store.cells, checkpoints, corpus):
        for name in PLANTED:
            (folder / name).write_bytes(traps.get(name, trap))
        for name in ("sitecustomize.py", "conftest.py", "__init__.py"):
            (folder / name).write_bytes(traps["planted.py"])
    other = "f" * 32
    (store.cells / f"{other}.json").write_bytes(trap)
    (store.cells / f"{CELL.key()}.json").write_bytes(
        sealed(canonical({"schema": 3, **body(trap=trap.decode("latin-1"))}))
    )
    (checkpoints / NAME).write_bytes(trap)
    with pytest.warns(UserWarning, match="1 records left out"):
        assert len(load_records(store.folder)) == 1
    assert missing([CELL], store) == {}
    assert store.read(other) is None
    assert store.damaged == [f"{other}.json"]
    store.create()
    assert Checkpoints(checkpoints).load(lambda *_: None, 1 << 20) == (0, {})
    assert b"posix" in load_corpus(str(corpus)).train.tobytes() + b"".join(
        load_corpus(str(corpus)).validation + load_corpus(str(corpus)).test
    )
    store.forget_checkpoints(CELL.key())
    assert not sentinel.exists()


def test_a_planted_checkpoint_with_a_checksum_is_never_run(tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    trap = pickle.dumps(Payload(sentinel))
    folder = tmp_path / CELL.key()
    folder.mkdir()
    data = (5).to_bytes(8) + trap
    digest = hashlib.sha256(CELL.key().encode() + data).digest()
    (folder / NAME).write_bytes(digest + data)
    checkpoints = Checkpoints(folder)
    assert checkpoints.load(lambda *_: None, 1 << 20) == (0, {})
    assert "step 5" in checkpoints.refused[0]
    assert not sentinel.exists()
