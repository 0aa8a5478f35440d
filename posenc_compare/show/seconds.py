"""Training at equal seconds beside training at equal steps.

A scheme that costs more a step has had fewer steps when the quickest has done all of
its own. What each predicted then is in the record of its training. The learning rate
of the slower ones had not fallen as far at that time, which is to their disadvantage.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from posenc_compare.records.record import Record
from posenc_compare.show.columns import Chosen
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.means import Mean, means_of, spread_note
from posenc_compare.show.ranking import by_family, order_lines, ranking
from posenc_compare.show.setting import SEVERAL, texts_of

ROUNDING = 1e-9  # of a quotient: the quickest does all of its steps
LAST = 0.1  # of the steps done, over which training bits are averaged
Losses = dict[int, list[float]]
"""Bits of every step, by seed."""


def seconds_tables(records: list[Record], chosen: Chosen) -> list[Table]:
    """Return a table if two schemes or more have a cost and a training, else none.

    Args:
        records: of one task.
        chosen: the columns that are asked for.
    """
    trained = _losses(records)
    means = means_of(records)
    cost = {m.scheme: m for m in means if m.quantity == "step_seconds" and m.values}
    plain = {m.scheme: m for m in means if m.quantity == "training_bits"}
    labels = sorted(
        trained.keys() & cost.keys() & plain.keys(),
        key=lambda label: by_family(plain[label].family, label),
    )
    if len(labels) < 2:
        return []
    done = {label: min(map(len, trained[label].values())) for label in labels}
    limit = min(cost[label].mean * done[label] for label in labels)
    steps = {
        label: min(math.floor(limit / cost[label].mean * (1 + ROUNDING)), done[label])
        for label in labels
    }
    scores: dict[str, dict[str, Mean]] = {
        "after all steps": {label: plain[label] for label in labels},
        f"after {limit:.3g} s": {
            label: _after(plain[label], trained[label], steps[label])
            for label in labels
        },
    }
    columns: dict[str, Mapping[str, str | Cell]] = {
        "seconds a step": {label: cost[label].cell for label in labels},
        f"steps in {limit:.3g} s": {label: str(steps[label]) for label in labels},
        **{name: {k: m.cell for k, m in of.items()} for name, of in scores.items()},
    }
    shown = [name for name in columns if chosen.asks(name)]
    if not shown:
        return []
    ordered = [name for name in shown if name in scores]
    one_text = len(texts_of(records)) <= 1
    rankings = [ranking(scores[name], "lower") for name in ordered if one_text]
    lines = order_lines(ordered, rankings) if one_text else (SEVERAL,)
    seeds = max(len(mean.values) for of in scores.values() for mean in of.values())
    return [
        Table(
            "training bits at equal steps and at equal seconds",
            ["scheme", *shown],
            [[label, *(columns[name][label] for name in shown)] for label in labels],
            seeds,
            lines,
            tuple(plain[label].family for label in labels),
            note=spread_note(seeds),
        )
    ]


def _losses(records: list[Record]) -> dict[str, Losses]:
    """Return the bits of every step of trainings, by scheme."""
    found: dict[str, Losses] = {}
    for record in records:
        losses = record.arrays.get("training_bits")
        if record.status == "ok" and isinstance(losses, Sequence):
            of_seeds = found.setdefault(record.label, {})
            of_seeds[record.spec.seed] = np.array(losses, float).tolist()
    return found


def _after(plain: Mean, trained: Losses, steps: int) -> Mean:
    """Return the bits of a training after some of its steps; none after no step."""
    if not steps:
        return replace(plain.with_values({}), note="no step is done")
    last = slice(steps - max(1, int(LAST * steps)), steps)
    values = {seed: float(np.mean(losses[last])) for seed, losses in trained.items()}
    return plain.with_values(values)
