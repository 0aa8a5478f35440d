"""The tasks of a folder: records by task, and the ranks of schemes over all of them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from posenc_compare.records.record import Record
from posenc_compare.show import frame
from posenc_compare.show.frame import Frame
from posenc_compare.show.ranking import twins
from posenc_compare.stats.rounding import levelled

FIRST = "language"  # of several tasks
AREA = "accuracy_area"  # the quantity that ranks go by


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


def reciprocal_ranks(
    tasks: Mapping[str, list[Record]], quantity: str = AREA, times: int = 0
) -> Frame:
    """Return the mean over tasks of 1 / rank, for each scheme that has all of them.

    Args:
        tasks: the records of each task.
        quantity: what ranks go by; greater is better.
        times: where on its curve, in training lengths; 0 off a curve.

    Ranks are among these schemes, by task and seed; a seed that one of them lacks on
    any task is left out. The best has rank 1, equal scores share the mean of their
    ranks, and a cell without a result counts as 0. Twins take one place together.

    Returns:
        A row for each scheme, as `means_of` has them.
    """
    known = [
        replace(record, rows=tuple(record.repeatable_rows))  # times make no twins
        for records in tasks.values()
        if any(quantity in record.quantities for record in records)
        for record in records
    ]
    means = frame.means_of(known)
    long: Frame = frame.long_table(known)
    same = twins(means)
    scored = {record.measure for record in known if quantity in record.quantities}
    long = long[long["measure"].isin([*scored])]
    there = long["quantity"] == quantity
    if times:
        lengths = {r.key: r.spec.setting.get("length") for r in known}
        there &= long["x"] == times * long["record"].map(lengths)
    score = long["value"].where(there)
    cells = score.groupby([long["seed"], long["task"], long["scheme"]]).max()
    table = cells.fillna(-math.inf).unstack()  # -inf: no result; NaN: no cell
    table = table.drop(columns=[label for label in same if label in table])
    count = table.index.unique("task").size
    table = table.loc[:, table.notna().groupby("task").any().all()].dropna()
    table = table[table.groupby("seed").transform("size") == count]
    if table.empty or table.shape[1] < 2:
        return means[:0]
    table = table.apply(levelled, axis=1, raw=True)
    lost: Frame = np.isinf(table)
    shares = (1 / table.rank(axis=1, ascending=False)).mask(lost, 0.0)
    by_seed = {k: one.groupby("seed").mean().to_dict() for k, one in shares.items()}
    keys = {k: tuple(one.unique()) for k, one in long.groupby("scheme")["record"]}
    rows, every = [], means.drop_duplicates("scheme").assign(task="", case="")
    every = every.assign(quantity="reciprocal_rank", x=math.nan, unit="share")
    for mean in frame.rows_of(every):
        first = same.get(mean.scheme, mean.scheme)
        if first in by_seed:
            failed = int(lost[first].sum())
            note = f"{failed} cell{'s' * (failed != 1)} without a result" * bool(failed)
            facts = {"note": note, "records": keys[mean.scheme]}
            rows.append(frame.with_values(mean, by_seed[first], **facts))
    return pd.DataFrame(rows, columns=means.columns)
