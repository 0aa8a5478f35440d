"""What plots take from records: the usable ones, and their rows and arrays."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.plots.style import Look, safe

Frame = Any  # a pandas table; type checkers lose its methods after one step
COLUMNS = ["scheme", "seed", "quantity", "value", "x", "case", "note"]


def usable(records: list[Record], measure: str) -> list[Record]:
    """Return the records of a measure that have a result, by seed.

    Records of one label are taken to share all settings but the seed, as those of
    `analysis.reading` do.
    """
    fit = [r for r in records if r.status == "ok" and r.measure == measure]
    return sorted(fit, key=lambda record: record.spec.seed)


def training_length(record: Record) -> float:
    """Return the length a trained record was trained at, in bytes.

    Raises:
        ValueError: if it does not say.
    """
    length = record.spec.setting.get("length")
    if not isinstance(length, int | float):
        raise ValueError("a record of a training must say at which length")
    return length


def rows_of(records: list[Record], styles: dict[str, Look]) -> Frame:
    """Return all rows of records in long form, in the order of legends.

    A value that is missing is NaN. `scheme` is the text of its look.
    """
    table: Frame = pd.DataFrame(
        [
            {**asdict(row), "scheme": styles[r.label].text, "seed": r.spec.seed}
            for r in records
            for row in r.rows
        ],
        columns=COLUMNS,
    )
    for column in ("case", "note"):
        table[column] = [safe(str(text)) for text in table[column]]
    for column in ("value", "x"):
        numbers: Any = pd.to_numeric(table[column], errors="coerce")
        table[column] = numbers.astype(float)
    place = {look.text: i for i, look in enumerate(styles.values())}
    order = table["scheme"].map(place).sort_values(kind="stable").index
    return table.loc[order].reset_index(drop=True)


def arrays_of(
    records: list[Record], name: str, styles: dict[str, Look]
) -> Iterator[tuple[Look, list[NDArray[np.float64]]]]:
    """Yield each scheme, in the order of legends, with its array of every seed."""
    found: dict[str, list[NDArray[np.float64]]] = {}
    for record in records:
        values = record.arrays.get(name)
        if values:
            array = np.array(values, dtype=np.float64)
            found.setdefault(record.label, []).append(array)
    for label, look in styles.items():
        if label in found:
            yield look, found[label]
