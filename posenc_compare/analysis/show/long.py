"""Every number of the records as a row, and as CSV that reads as it was."""

import csv
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.format import csv_text, unguard

LONG = [
    "scheme",
    "family",
    "measure",
    "task",
    "quantity",
    "case",
    "x",
    "seed",
    "value",
    "unit",
    "note",
    "status",
    "record",
]
NUMBERS = {"x", "seed", "value", "mean", "half_width", "n"}


def long_table(records: Iterable[Record]) -> pd.DataFrame:
    """Return a row per number; a record without numbers gives one that says why.

    The column `x` is where a curve's point lies, `record` the key of its file.
    """
    rows = []
    for record in records:
        shared = {
            "scheme": record.label,
            "family": record.family,
            "measure": record.measure,
            "task": record.task,
            "seed": record.spec.seed,
            "status": record.status,
            "record": record.key,
            "unit": "",
        }
        if record.status != "ok":
            note = f"{record.status}: {record.error}"
            rows.append({**shared, "quantity": "", "case": "", "note": note})
            continue
        for row in record.rows:
            unit = record.quantities[row.quantity].unit
            rows.append({**asdict(row), **shared, "unit": unit})
    frame = pd.DataFrame(rows, columns=LONG)
    return frame.astype({"x": "float64", "value": "float64"})


def as_csv(frame: pd.DataFrame) -> str:
    """Return CSV that `read_table` reads; a missing number is an empty cell."""
    cells = frame.astype(object).where(frame.notna(), None)
    return csv_text(list(frame.columns), cells.to_numpy().tolist())


def read_table(path: Path) -> pd.DataFrame:
    """Read rows.csv or table.csv as they were before they were written."""
    with path.open(newline="", encoding="utf-8") as file:
        head, *body = csv.reader(file)
    frame = pd.DataFrame(body, columns=head)
    for name in head:
        as_number = name in NUMBERS
        frame[name] = (
            pd.to_numeric(frame[name]) if as_number else frame[name].map(unguard)
        )
    return frame
