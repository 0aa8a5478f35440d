"""The tasks of a folder: records by task, and the ranks of schemes over all of them."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from posenc_compare.records.record import Record
from posenc_compare.show.means import Frame, Mean, means_of
from posenc_compare.show.ranking import alike_throughout

FIRST = "language"  # of several tasks
ACROSS = ("accuracy_area", "mastered_length")
"""Quantities that tasks are laid side by side by; ranks go by the first."""
STRANGE = re.compile(r"[^a-z0-9_.-]|^\.")


def by_task(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records of trainings by their task; that of text is the first."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.task:
            found.setdefault(record.task, []).append(record)
    return {task: found[task] for task in sorted(found, key=lambda t: (t != FIRST, t))}


def prefix(task: str) -> str:
    """Return what stands before a title to say of which task it is."""
    return "" if task == FIRST else f"{task}: "


def page_name(task: str) -> str:
    """Return the name of a file for a task, which may be a stranger's."""
    return STRANGE.sub("_", task)[:64]


def reciprocal_ranks(tasks: Mapping[str, list[Record]]) -> list[Mean]:
    """Return the mean over tasks of 1 / rank, for each scheme that has all of them.

    Ranks are among these schemes, by task and seed; a seed that one of them lacks on
    any task is left out. The best has rank 1, equal scores
    share the mean of their ranks, and a cell without a result counts as 0. Schemes that
    cannot be told apart on any task, by `alike`, take one place together.

    Args:
        tasks: records by task; those that are not scored by accuracy are left out.
    """
    known = [
        record
        for records in tasks.values()
        if any(ACROSS[0] in record.quantities for record in records)
        for record in records
    ]
    measures = {one.measure for one in known if ACROSS[0] in one.quantities}
    same = alike_throughout(known)
    behind: dict[str, list[Record]] = defaultdict(list)
    for record in known:
        if record.measure in measures:
            behind[record.label].append(record)
    count = len({record.task for record in known})
    labels = [
        label
        for label, some in sorted(behind.items())
        if label not in same and len({record.task for record in some}) == count
    ]
    if len(labels) < 2:
        return []
    cells = [
        (one.spec.seed, one.task, label, _score(one))
        for label in labels
        for one in behind[label]
    ]
    frame: Frame = pd.DataFrame(cells, columns=["seed", "task", "label", "score"])
    scores = frame.groupby(["seed", "task", "label"])["score"].last()
    table = scores.unstack().dropna()
    table = table[table.groupby("seed").transform("size") == count]
    if table.empty:
        return []
    lost: Frame = np.isinf(table)
    shares = (1 / table.rank(axis=1, ascending=False)).mask(lost, 0.0)
    means = shares.to_numpy().reshape(-1, count, len(labels)).mean(axis=1)
    by_seed: Frame = pd.DataFrame(means, table.index.unique("seed"), table.columns)
    found = {
        label: _mean(behind[label], by_seed[label].to_dict(), int(lost[label].sum()))
        for label in labels
    }
    return [
        *found.values(),
        *(
            replace(found[first], scheme=twin, records=_keys(behind[twin]))
            for twin, first in same.items()
            if first in found
        ),
    ]


def _keys(records: list[Record]) -> tuple[str, ...]:
    return tuple(record.key for record in records)


def _score(record: Record) -> float:
    """Return the score that ranks go by; -inf without a result."""
    values = [row.value for row in record.rows if row.quantity == ACROSS[0]]
    return -math.inf if not values or values[0] is None else values[0]


def _mean(records: list[Record], values: dict[int, float], lost: int) -> Mean:
    """Return the mean over seeds of what a scheme has."""
    rank = replace(
        means_of(records)[0],
        task="",
        quantity="reciprocal_rank",
        case="",
        x=math.nan,
        unit="share",
        note=f"{lost} cells without a result" if lost else "",
        records=_keys(records),
    )
    return rank.with_values(values)
