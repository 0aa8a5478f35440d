"""The tasks of a folder: records by task, and the ranks of schemes over all of them."""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from scipy.stats import rankdata

from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.listing import alike_throughout
from posenc_compare.analysis.show.means import Mean
from posenc_compare.stats.intervals import half_width

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
    scored = [
        records
        for records in tasks.values()
        if any(ACROSS[0] in record.quantities for record in records)
    ]
    if not scored:
        return []
    same = alike_throughout(itertools.chain(*scored))
    ranked = [[r for r in records if r.label not in same] for records in scored]
    scores = [_scores(records) for records in ranked]
    behind: dict[str, list[Record]] = defaultdict(list)
    for record in itertools.chain(*scored):
        behind[record.label].append(record)
    shares: dict[str, dict[int, float]] = defaultdict(dict)
    labels = sorted(set.intersection(*(_labels(task) for task in scores)))
    if len(labels) < 2:
        return []
    for seed in sorted(set.intersection(*(_seeds(task, labels) for task in scores))):
        table = np.array([[task[seed][label] for label in labels] for task in scores])
        ranks = rankdata(-table, axis=1)
        means = np.where(np.isfinite(table), 1 / ranks, 0).mean(axis=0)
        for label, mean in zip(labels, means.tolist(), strict=True):
            shares[label][seed] = mean
    found = {
        label: _mean(behind[label], values, scores)
        for label, values in sorted(shares.items())
    }
    return [
        *found.values(),
        *(
            replace(found[first], scheme=twin, records=_keys(behind[twin]))
            for twin, first in same.items()
            if first in found
        ),
    ]


def _labels(scores: Mapping[int, Mapping[str, float]]) -> set[str]:
    """Return the schemes that a task has scores of."""
    return {label for of in scores.values() for label in of}


def _seeds(scores: Mapping[int, Mapping[str, float]], labels: list[str]) -> set[int]:
    """Return the seeds of which a task has a score of every scheme."""
    return {seed for seed, of in scores.items() if of.keys() >= set(labels)}


def _keys(records: list[Record]) -> tuple[str, ...]:
    return tuple(record.key for record in records)


def _scores(records: list[Record]) -> dict[int, dict[str, float]]:
    """Return the score of every cell by seed and label; -inf without a result."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for record in records:
        values = [row.value for row in record.rows if row.quantity == ACROSS[0]]
        value = values[0] if values else None
        found[record.spec.seed][record.label] = -math.inf if value is None else value
    return found


def _mean(
    records: list[Record],
    values: dict[int, float],
    scores: list[dict[int, dict[str, float]]],
) -> Mean:
    """Return the mean over seeds of what a scheme has."""
    first = records[0]
    lost = sum(
        math.isinf(task[seed][first.label]) for task in scores for seed in values
    )
    return Mean(
        first.label,
        first.family,
        first.source,
        first.measure,
        task="",
        quantity="reciprocal_rank",
        case="",
        x=math.nan,
        unit="share",
        values=values,
        half_width=half_width([*values.values()]),
        documents=0,
        note=f"{lost} cells without a result" if lost else "",
        records=_keys(records),
    )
