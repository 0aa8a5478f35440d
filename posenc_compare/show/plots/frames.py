"""What plots take from records: the usable ones, their numbers and their arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from posenc_compare.records.record import Record
from posenc_compare.show.frame import Frame, Numbers, over_seeds, usable
from posenc_compare.show.plots.style import Look, safe
from posenc_compare.show.tasks import by_task
from posenc_compare.stats.intervals import half_width

Array = NDArray[np.float64]

AVERAGES = ["x", "mean", "half_width", "n"]
EQUAL = 2e-5  # of the largest value: rounding
NAMES = 36  # characters of the names of schemes that are drawn as one


def scored(records: list[Record], score: str) -> dict[str, list[Record]]:
    """Return the usable records of trainings with a score, by their task."""
    fit = [r for r in usable(records, "extrapolation") if score in r.quantities]
    return by_task(fit)


def in_bits(records: list[Record]) -> list[Record]:
    """Return the usable records of the first task that is scored in bits per byte."""
    return next(iter(scored(records, "bits_per_byte").values()), [])


def training_length(record: Record) -> float:
    """Return the length a record was trained at, in bytes or tokens."""
    setting = record.spec.setting
    return float(str(setting.get("trained", setting.get("length"))))


def means_of(
    numbers: Numbers, chosen: Sequence[Record], styles: Mapping[str, Look]
) -> Frame:
    """Return the means of what some records measure, in the order of legends.

    `scheme` is the text of its look; intervals are over seeds alone. A mean that is
    missing is NaN.
    """
    means = numbers.means[numbers.means["quantity"] != ""]
    for name in ("measure", "task"):
        means = means[means[name].isin({getattr(one, name) for one in chosen})]
    means = over_seeds(means)
    place = {label: i for i, label in enumerate(styles)}
    means = means.sort_values("scheme", key=lambda x: x.map(place), kind="stable")
    texts = {label: look.text for label, look in styles.items()}
    return means.assign(scheme=means["scheme"].map(texts), case=means["case"].map(safe))


def arrays_of(
    records: list[Record], name: str, styles: Mapping[str, Look]
) -> dict[str, list[Array]]:
    """Return the array of every seed by label, in the order of legends."""
    found: dict[str, list[Array]] = {label: [] for label in styles}
    for record in records:
        if values := record.arrays.get(name):
            found[record.label].append(np.array(values, dtype=np.float64))
    return {label: arrays for label, arrays in found.items() if arrays}


def means_of_arrays(
    arrays: Mapping[str, Sequence[Array]], styles: Mapping[str, Look], panel: str
) -> Frame:
    """Return the means over seeds of flat arrays, by their places `x`, from 0."""
    rows = [
        (panel, styles[label].text, x, np.mean(values), half_width(values), len(values))
        for label, seeds in arrays.items()
        for x, values in enumerate(zip(*seeds, strict=True))
    ]
    found = pd.DataFrame(rows, columns=["panel", "scheme", *AVERAGES])
    return found.astype(dict.fromkeys(AVERAGES, "float64"))


def equal_groups(arrays: Mapping[str, Array]) -> list[list[str]]:
    """Return labels with equal arrays together, in the given order.

    Arrays are equal if they differ by rounding, and are undefined in the same places.
    """
    groups: list[list[str]] = []
    for label, array in arrays.items():
        same = (group for group in groups if _equal(arrays[group[0]], array))
        if group := next(same, None):
            group.append(label)
        else:
            groups.append([label])
    return groups


def _equal(one: Array, other: Array) -> bool:
    if one.shape != other.shape or not np.isfinite(one).any():
        return False
    apart = EQUAL * float(np.nanmax(np.abs(one)))
    return bool(np.allclose(one, other, rtol=0, atol=apart, equal_nan=True))


def joined(names: Sequence[str]) -> str:
    """Return the names of schemes that are drawn as one; of many, how many more."""
    text, *others = names
    for i, name in enumerate(others):
        if len(text) + len(name) > NAMES:
            return f"{text} and {len(others) - i} more"
        text = f"{text}, {name}"
    return text


def merge_equal(
    rows: Frame, styles: Mapping[str, Look]
) -> tuple[Frame, dict[str, Look]]:
    """Return rows and looks in which schemes with the same means are one.

    It has the look of the first, and the names of all. Rows have `panel`,
    `scheme`, `x` and `mean`.
    """
    at = ["panel", "x"]
    table = rows.pivot_table("mean", at, "scheme", sort=False, dropna=False)
    means = {
        label: table[look.text].to_numpy(float)
        for label, look in styles.items()
        if look.text in table.columns
    }
    merged = {}
    for group in equal_groups(means):
        text = joined([styles[label].text for label in group])
        merged[group[0]] = replace(styles[group[0]], text=text)
    names = {styles[label].text: look.text for label, look in merged.items()}
    kept = rows[rows["scheme"].isin(names)]
    return kept.assign(scheme=kept["scheme"].map(names)), merged
