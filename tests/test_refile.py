"""Records under new keys: each folder keeps what it had."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posenc_compare.analysis.core.canonical import spec_key
from posenc_compare.analysis.core.progress import Progress
from posenc_compare.analysis.engine.compute import compute
from posenc_compare.analysis.records.cells import Cell
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.records.store import Store
from posenc_compare.analysis.settings.probe import ProbeSetting
from posenc_compare.analysis.settings.training import Training
from posenc_compare.variants import Variant

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tools"))
refile: Any = importlib.import_module("refile")
CELL = Cell(Variant("rope"), "smoothness", ProbeSetting(width=16, heads=2), 1)


def filed(folder: Path, machine: str, **changed: Any) -> Store:
    """Return a folder with a record of older code, made by a machine."""
    record = replace(compute(CELL, Progress()), **changed)
    measure = replace(record.spec.measure, source_sha256="0" * 64)
    spec = replace(record.spec, measure=measure)
    made = record.provenance.with_facts(cpu=machine)
    key = spec_key(spec.to_json())
    store = Store(folder)
    store.create()
    store.write(replace(record, key=key, spec=spec, provenance=made).to_json())
    return store


def only(store: Store) -> Record:
    (body,) = store.records()
    return Record.from_json(body)


def test_two_folders_with_one_cell_keep_a_record_each(tmp_path: Path) -> None:
    stores = [filed(tmp_path / name, name) for name in ("one", "other")]
    before = [only(store) for store in stores]
    assert before[0].key == before[1].key != CELL.key()
    refile.main([store.folder for store in stores], sample=1)
    for store, was in zip(stores, before, strict=True):
        now = only(store)
        assert now.key == CELL.key()
        assert now.rows == was.rows
        assert now.provenance.text("cpu", "") == was.provenance.text("cpu", "")
        assert now.provenance.text("refiled_from", "") == was.key


def test_code_of_then_is_given_no_setting_of_later() -> None:
    setting = Training(drop=0.25)
    record = Cell(Variant("rope"), "extrapolation", setting, 1).record()
    left = {*record.spec.setting} - {*refile.as_then(record)["setting"]}
    assert left == {"convolution"}
    assert Training.of(refile.as_then(record)["setting"], ("stdlib", "")) == setting


def test_another_result_of_this_processor_is_filed_nowhere(tmp_path: Path) -> None:
    row = compute(CELL, Progress()).rows[0]
    store = filed(tmp_path / "one", "one", rows=[replace(row, value=0.5)])
    before = only(store)
    with pytest.raises(SystemExit, match="1 of 1 differ; nothing is filed anew"):
        refile.main([store.folder], sample=1)
    assert only(store) == before
