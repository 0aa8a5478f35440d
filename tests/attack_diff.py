"""Attacks on `diff` that succeed: each test says what should hold, and fails."""

from dataclasses import replace
from pathlib import Path

import pytest

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.records.store import Store
from posenc_compare.cli.diff import diff

QUICK = Path(__file__).parent.parent / "results" / "quick"


@pytest.mark.parametrize("by", ["threads", "code"])
def test_diff_compares_every_record(by: str, tmp_path: Path) -> None:
    body = next(
        b
        for b in Store(QUICK).records()
        if b["spec"]["measure"]["name"] == "uniqueness" and b["rows"]
    )
    base = Record.from_json(body)
    pair = [base, replace(base, spec=replace(base.spec, threads=base.spec.threads + 1))]
    if by == "code":
        other = replace(base.spec.measure, source_sha256="0" * 64)
        pair[1] = replace(base, spec=replace(base.spec, measure=other))
    changes = []
    for changed in range(2):
        folders = [tmp_path / f"{changed}-{side}" for side in "ab"]
        for folder in folders:
            store = Store(folder)
            store.create()
            for number, record in enumerate(pair):
                if number == changed and folder is folders[1]:
                    row = replace(record.rows[0], value=123456.0)
                    record = replace(record, rows=(row, *record.rows[1:]))
                store.write(record.to_json())
        changes.append(diff(*folders))
    assert changes == [1, 1]  # a number differs in one record of the second folder
