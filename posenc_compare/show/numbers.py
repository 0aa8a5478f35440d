"""All numbers of records as frames, and as CSV that reads as it was."""

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from posenc_compare.records.record import Record
from posenc_compare.show.means import means_of

FORMULA = re.compile(r"\s*[=+\-@＝＋－＠\t\r\0']")  # noqa: RUF001
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
SUMMARY = [
    "scheme",
    "family",
    "measure",
    "task",
    "quantity",
    "case",
    "x",
    "unit",
    "mean",
    "half_width",
    "n",
    "note",
    "records",
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


def summary(records: Iterable[Record]) -> pd.DataFrame:
    """Return mean, half width of the 95 % interval and count over seeds.

    `records` lists the keys of the records behind a row, `note` what they say.
    """
    rows = [
        {
            **vars(mean),
            "mean": mean.mean,
            "n": len(mean.values),
            "records": " ".join(sorted(mean.records)),
        }
        for mean in means_of(records)
    ]
    frame = pd.DataFrame(rows, columns=SUMMARY)
    return frame.astype(dict.fromkeys(("x", "mean", "half_width"), "float64"))


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


def csv_text(head: list[str], body: Iterable[Iterable[object]]) -> str:
    """Return CSV whose texts no spreadsheet takes for a formula; numbers stay."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(head)
    rows = [[_guard(cell) for cell in row] for row in body]
    form = {"lineterminator": "\n", "quoting": csv.QUOTE_NONNUMERIC}
    csv.writer(text, **form).writerows(rows)
    return text.getvalue()


def unguard(cell: str) -> str:
    """Return the text that `csv_text` was given."""
    return cell.removeprefix("'")


def _guard(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell
