"""Schemes whose curves are the same: drawn once, with all their names."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from posenc_compare.analysis.show.plots.frames import Frame
from posenc_compare.analysis.show.plots.style import Look, places

EQUAL = 2e-5  # of the largest value: rounding
NAMES = 36  # characters of the names of schemes that are drawn as one
PLACE = ("quantity", "case", "x")


def drawn_once(styles: dict[str, Look], rows: Frame) -> tuple[dict[str, Look], Frame]:
    """Return looks and rows in which schemes with the same rows are one.

    It has the look of the one that was published first, and the names of all.

    Args:
        styles: look of every scheme.
        rows: `scheme`, `value`, and what of `quantity`, `case`, `x` tells values apart.
    """
    if rows.empty:
        return styles, rows
    at = [name for name in PLACE if name in rows]
    table = rows.pivot_table(
        index=at, columns="scheme", values="value", sort=False, dropna=False
    )
    labels = [k for k, look in styles.items() if look.text in table.columns]
    names = {label: styles[label].text for label in styles}
    dropped = set()
    for members in _by_notes(labels, styles, rows):
        values = [table[styles[label].text].to_numpy(float) for label in members]
        for first, *others in groups_alike(members, values):
            names[first] = joined([styles[label].text for label in (first, *others)])
            dropped |= set(others)
    merged = {
        label: replace(look, text=names[label])
        for label, look in styles.items()
        if label not in dropped
    }
    new = {styles[label].text: look.text for label, look in merged.items()}
    kept = rows[rows["scheme"].isin(new)]
    return merged, kept.assign(scheme=kept["scheme"].map(new))


def joined(names: Sequence[str]) -> str:
    """Return the names of schemes that are drawn as one; of many, how many more."""
    text, *others = names
    for i, name in enumerate(others):
        if len(text) + len(name) > NAMES:
            return f"{text} and {len(others) - i} more"
        text = f"{text}, {name}"
    return text


def _by_notes(
    labels: Sequence[str], styles: dict[str, Look], rows: Frame
) -> list[list[str]]:
    """Return labels whose rows have the same notes together."""
    found: dict[object, list[str]] = {}
    for label in labels:
        own = rows[rows["scheme"] == styles[label].text]
        notes = frozenset(own["note"]) if "note" in own else None
        found.setdefault(notes, []).append(label)
    return [*found.values()]


def groups_alike(
    labels: Sequence[str], arrays: Sequence[NDArray[np.float64]]
) -> list[list[str]]:
    """Return labels with equal arrays together, the first published in front.

    Arrays are equal if they differ by rounding, and are undefined in the same places.
    """
    order = places()
    by_age = sorted(range(len(labels)), key=lambda i: order.get(labels[i], len(order)))
    groups: list[list[int]] = []
    for i in by_age:
        for group in groups:
            if _same(arrays[group[0]], arrays[i]):
                group.append(i)
                break
        else:
            groups.append([i])
    found = [[labels[i] for i in group] for group in groups]
    return sorted(found, key=lambda group: labels.index(group[0]))


def _same(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    if one.shape != other.shape or not np.isfinite(one).any():
        return False
    apart = EQUAL * float(np.nanmax(np.abs(one)))
    return bool(np.allclose(one, other, rtol=0, atol=apart, equal_nan=True))
