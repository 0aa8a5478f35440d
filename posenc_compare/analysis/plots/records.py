"""What plots take from records: the usable ones, and their rows and arrays."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from posenc_compare.analysis.plots.style import Look

Record = dict[str, Any]
COLUMNS = ["scheme", "label", "seed", "quantity", "value", "x", "case", "note"]


def usable(records: list[Record], measure: str) -> list[Record]:
    """Return the records of a measure that have a result, those of one setting.

    Settings that differ in more than seed and device are not comparable: the one
    with most records is taken, and of several the one computed last.
    """
    fit = [r for r in records if r.get("status") == "ok" and measure_of(r) == measure]
    counts = Counter(_setting(r) for r in fit)
    latest = {_setting(r): r.get("started", "") for r in sorted(fit, key=_started)}
    best = max(counts, key=lambda s: (counts[s], latest[s]), default="")
    return sorted((r for r in fit if _setting(r) == best), key=_seed)


def measure_of(record: Record) -> str:
    """Return the name of the measure a record is of."""
    return record.get("spec", {}).get("measure", {}).get("name", "")


def training_length(record: Record) -> int:
    """Return the length a trained record was trained at, in bytes."""
    return record["spec"]["setting"]["length"]


def rows_of(records: list[Record], styles: dict[str, Look]) -> pd.DataFrame:
    """Return all rows of records in long form, in the order of legends.

    A value that is missing is NaN. `scheme` is the label as drawn.
    """
    table = pd.DataFrame(
        [
            {"label": r["label"], "seed": _seed(r), **row}
            for r in records
            for row in r.get("rows", [])
        ],
        columns=COLUMNS,
    )
    table["scheme"] = table["label"].map({n: look.text for n, look in styles.items()})
    for column in ("value", "x"):
        table[column] = pd.to_numeric(table[column], errors="coerce").astype(float)
    place = {label: i for i, label in enumerate(styles)}
    order = table["label"].map(place).sort_values(kind="stable").index
    return table.loc[order].reset_index(drop=True)


def arrays_of(
    records: list[Record], name: str, styles: dict[str, Look]
) -> Iterator[tuple[str, list[NDArray[np.float64]]]]:
    """Yield each label, in the order of legends, with its array of every seed."""
    found: dict[str, list[NDArray[np.float64]]] = {}
    for record in records:
        values = record.get("arrays", {}).get(name)
        if values:
            array = np.array(values, dtype=np.float64)
            found.setdefault(record["label"], []).append(array)
    for label in styles:
        if label in found:
            yield label, found[label]


def _setting(record: Record) -> str:
    setting = record.get("spec", {}).get("setting", {})
    kept = {k: v for k, v in setting.items() if k not in ("seed", "device")}
    return json.dumps(kept, sort_keys=True, default=str)


def _seed(record: Record) -> int:
    return record.get("spec", {}).get("setting", {}).get("seed", 0)


def _started(record: Record) -> str:
    return record.get("started", "")
