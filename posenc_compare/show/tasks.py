"""The tasks of a folder: records by task, and the ranks of schemes over all of them."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from posenc_compare.records.record import Record
from posenc_compare.show.frame import Frame, means_of, with_values
from posenc_compare.show.ranking import twins

FIRST = "language"  # of several tasks
AREA = "accuracy_area"  # the quantity that ranks go by
UNSAFE = re.compile(r"[^a-z0-9_.-]|^\.")


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
    """Return the name of a file for a task, whose own name is untrusted."""
    return UNSAFE.sub("_", task)[:64]


def reciprocal_ranks(tasks: Mapping[str, list[Record]]) -> Frame:
    """Return the mean over tasks of 1 / rank, for each scheme that has all of them.

    Ranks are among these schemes, by task and seed; a seed that one of them lacks on
    any task is left out. The best has rank 1, equal scores share the mean of their
    ranks, and a cell without a result counts as 0. Twins take one place together.

    Args:
        tasks: records by task; those that are not scored by accuracy are left out.

    Returns:
        A row for each scheme, as `means_of` has them.
    """
    known = [
        record
        for records in tasks.values()
        if any(AREA in record.quantities for record in records)
        for record in records
    ]
    means = means_of(known)
    own, same = _scored(known), twins(repeatable_of(known, means))
    count = len({record.task for record in known})
    labels = [
        label
        for label, some in own.items()
        if label not in same and len({record.task for record in some}) == count
    ]
    if len(labels) < 2:
        return means[:0]
    cells = [
        (one.spec.seed, one.task, label, _score(one))
        for label in labels
        for one in own[label]
    ]
    frame: Frame = pd.DataFrame(cells, columns=["seed", "task", "label", "score"])
    scores = frame.groupby(["seed", "task", "label"])["score"].last()
    table = scores.unstack().dropna()
    table = table[table.groupby("seed").transform("size") == count]
    if table.empty:
        return means[:0]
    lost: Frame = np.isinf(table)
    shares = (1 / table.rank(axis=1, ascending=False)).mask(lost, 0.0)
    ranks = shares.to_numpy().reshape(-1, count, len(labels)).mean(axis=1)
    by_seed: Frame = pd.DataFrame(ranks, table.index.unique("seed"), table.columns)
    rows = []
    for mean in means.drop_duplicates("scheme").itertuples(index=False):
        first = same.get(mean.scheme, mean.scheme)
        if first not in labels:
            continue
        failed = int(lost[first].sum())
        changes = {
            "quantity": "reciprocal_rank",
            "task": "",
            "case": "",
            "x": math.nan,
            "unit": "share",
            "note": f"{failed} cells without a result" if failed else "",
            "records": tuple(record.key for record in own[mean.scheme]),
        }
        rows.append(with_values(mean, by_seed[first].to_dict(), **changes))
    return pd.DataFrame(rows, columns=means.columns)


def _scored(records: list[Record]) -> dict[str, list[Record]]:
    """Return the records of the measures that have the score, by scheme."""
    measures = {one.measure for one in records if AREA in one.quantities}
    found: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.label):
        if record.measure in measures:
            found[record.label].append(record)
    return found


def repeatable_of(records: list[Record], means: Frame) -> Frame:
    """Return means without those that no machine repeats, such as times."""
    timed = {
        name
        for record in records
        for name, quantity in record.quantities.items()
        if not quantity.repeatable
    }
    return means[~means["quantity"].isin(timed)]


def _score(record: Record) -> float:
    """Return the score that ranks go by; -inf without a result."""
    values = [row.value for row in record.rows if row.quantity == AREA]
    return -math.inf if not values or values[0] is None else values[0]
