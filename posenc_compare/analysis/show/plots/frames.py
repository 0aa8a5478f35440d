"""What plots take from records: the usable ones, and their means and arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.means import means_of
from posenc_compare.analysis.show.plots.style import Look, safe
from posenc_compare.analysis.show.tasks import by_task
from posenc_compare.stats.intervals import half_width

Frame = Any  # a pandas table; type checkers lose its methods after one step
COLUMNS = ["scheme", "quantity", "case", "x", "value", "half_width", "note"]


def usable(records: list[Record], measure: str) -> list[Record]:
    """Return the records of a measure that have a result, by seed.

    Records of one label and task are taken to share all settings but the seed, as those
    of `analysis.records.load` do.
    """
    fit = [r for r in records if r.status == "ok" and r.measure == measure]
    return sorted(fit, key=lambda record: record.spec.seed)


def scored(records: list[Record], score: str) -> dict[str, list[Record]]:
    """Return the usable records of trainings with a score, by their task."""
    fit = [r for r in usable(records, "extrapolation") if score in r.quantities]
    return by_task(fit)


def in_bits(records: list[Record]) -> list[Record]:
    """Return the usable records of the first task that is scored in bits per byte."""
    return next(iter(scored(records, "bits_per_byte").values()), [])


def training_length(record: Record) -> float:
    """Return the length a trained record was trained at, in bytes.

    Raises:
        ValueError: if it does not say.
    """
    length = record.spec.setting.get("length")
    if not isinstance(length, int | float):
        raise ValueError("a record of a training must say at which length")
    return length


def means_table(records: list[Record], styles: dict[str, Look]) -> Frame:
    """Return the means over seeds of records in long form, in the order of legends.

    A value that is missing is NaN, and so is the half width of the 95 % interval of a
    single seed. It is over seeds alone: the lines of a plot are read beside each other,
    and all of them have read the same text. `scheme` is the text of its look.
    """
    place = {label: i for i, label in enumerate(styles)}
    means = sorted(means_of(records), key=lambda mean: place[mean.scheme])
    return pd.DataFrame(
        [
            (
                styles[mean.scheme].text,
                mean.quantity,
                safe(mean.case),
                mean.x,
                mean.mean,
                half_width([*mean.values.values()]),
                safe(mean.note),
            )
            for mean in means
        ],
        columns=COLUMNS,
    )


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
