"""The tasks of a folder: records by task, and the ranks of schemes over all of them."""

import math
from collections.abc import Collection, Iterable, Mapping
from statistics import fmean

import numpy as np
import pandas as pd

from posenc_compare.records.record import Record
from posenc_compare.show import frame
from posenc_compare.show.frame import Frame, Numbers
from posenc_compare.show.ranking import twins
from posenc_compare.stats.rounding import levelled

FIRST = "language"  # of several tasks
AREA = "accuracy_area"  # the quantity that ranks go by
SOLVED = 0.9  # accuracy of the best scheme at the training length


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


def solved(tasks: Mapping[str, list[Record]]) -> dict[str, list[Record]]:
    """Return the tasks that some scheme solves at the training length.

    Its mean accuracy there is at least `SOLVED`. A task without such a number counts.
    """
    return {k: records for k, records in tasks.items() if not _best(records) < SOLVED}


def _best(records: list[Record]) -> float:
    """Return the best mean accuracy of a scheme at the training length, or NaN."""
    found: dict[str, list[float]] = {}
    for record in records:
        length = record.spec.setting.get("length")
        for row in record.rows:
            if (row.quantity, row.case, row.x) == ("accuracy", "", length):
                found.setdefault(record.label, []).append(row.value or 0.0)
    return max(map(fmean, found.values()), default=math.nan)


def reciprocal_ranks(
    numbers: Numbers, tasks: Collection[str], quantity: str = AREA, times: int = 0
) -> Frame:
    """Return the mean over tasks of 1 / rank, for each scheme that has all of them.

    Args:
        numbers: of records on these tasks, and of others.
        tasks: that count.
        quantity: what ranks go by; greater is better.
        times: where on its curve, in training lengths; 0 off a curve.

    Ranks are among these schemes, by task and seed; a seed that one of them lacks on
    any task is left out. The best has rank 1, equal scores share the mean of their
    ranks, and a cell without a result counts as 0. Twins take one place together.

    Returns:
        A row for each scheme, as `Numbers.means` has them.
    """
    scored = [r for r in numbers if quantity in r.quantities]
    counted = {record.task for record in scored} & {*tasks}
    means, rows = (
        some[some["task"].isin(counted) & some["repeatable"]]  # times make no twins
        for some in (numbers.means, numbers.rows)
    )
    same = twins(means)
    measures = {record.measure for record in scored if record.task in counted}
    long: Frame = rows[rows["measure"].isin(measures)]
    there = long["quantity"] == quantity
    if times:
        lengths = {r.key: r.spec.setting.get("length") for r in scored}
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
    found, every = [], means.drop_duplicates("scheme").assign(task="", case="")
    every = every.assign(quantity="reciprocal_rank", x=math.nan, unit="share")
    for mean in frame.rows_of(every):
        first = same.get(mean.scheme, mean.scheme)
        if first in by_seed:
            failed = int(lost[first].sum())
            note = f"{failed} cell{'s' * (failed != 1)} without a result" * bool(failed)
            facts = {"note": note, "records": keys[mean.scheme]}
            found.append(frame.with_values(mean, by_seed[first], **facts))
    return pd.DataFrame(found, columns=means.columns)
