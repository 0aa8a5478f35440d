"""Training at equal seconds beside training at equal steps.

A scheme that costs more a step has had fewer steps when the quickest has done all of
its own. What each predicted then is in the record of its training. The learning rate
of the slower ones had not fallen as far at that time, which is to their disadvantage.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from posenc_compare.analysis.core.quantities import Better
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.columns import Chosen
from posenc_compare.analysis.show.format import Cell, Table
from posenc_compare.analysis.show.listing import by_family
from posenc_compare.analysis.show.means import Mean, means_of
from posenc_compare.analysis.show.orders import order_lines
from posenc_compare.analysis.show.setting import SEVERAL, texts_of
from posenc_compare.stats.intervals import LEVEL, half_width

ROUNDING = 1e-9  # of a quotient: the quickest does all of its steps
LAST = 0.1  # of the steps done, over which training bits are averaged


def seconds_tables(records: list[Record], chosen: Chosen) -> list[Table]:
    """Return a table if two schemes or more have a cost and a training, else none.

    Args:
        records: of one task.
        chosen: the columns that are asked for.
    """
    trained: dict[str, dict[int, Sequence[float]]] = {}
    for record in records:
        losses = record.arrays.get("training_bits")
        if record.status == "ok" and isinstance(losses, Sequence):
            of_seeds = trained.setdefault(record.label, {})
            of_seeds[record.spec.seed] = np.array(losses, float).tolist()
    means = means_of(records)
    cost = {m.scheme: m for m in means if m.quantity == "step_seconds" and m.values}
    plain = {m.scheme: m for m in means if m.quantity == "training_bits"}
    labels = [label for label in trained if label in cost and label in plain]
    if len(labels) < 2:
        return []
    labels.sort(key=lambda label: by_family(plain[label].family, label))
    whole = {
        label: cost[label].mean * min(map(len, trained[label].values()))
        for label in labels
    }
    limit = min(whole.values())
    steps = {
        label: min(
            math.floor(limit / cost[label].mean * (1 + ROUNDING)),
            *map(len, trained[label].values()),
        )
        for label in labels
    }
    bits = {
        label: _after(plain[label], trained[label], steps[label]) for label in labels
    }
    scores = {
        "after all steps": {label: plain[label] for label in labels},
        f"after {limit:.3g} s": bits,
    }
    columns: dict[str, dict[str, str | Cell]] = {
        "seconds a step": {label: cost[label].cell for label in labels},
        f"steps in {limit:.3g} s": {label: str(steps[label]) for label in labels},
        **{name: {k: m.cell for k, m in of.items()} for name, of in scores.items()},
    }
    shown = [name for name in columns if chosen.asks(name)]
    if not shown:
        return []
    ordered = [name for name in shown if name in scores]
    found = [scores[name] for name in ordered]
    better: list[Better] = ["lower"] * len(found)
    one_text = len(texts_of(records)) <= 1
    lines = order_lines(ordered, found, better) if one_text else (SEVERAL,)
    seeds = max(len(mean.values) for of in scores.values() for mean in of.values())
    spread = f"mean ± half width of the {LEVEL:.0%} interval over {seeds} seeds"
    return [
        Table(
            "training bits at equal steps and at equal seconds",
            ["scheme", *shown],
            [[label, *(columns[name][label] for name in shown)] for label in labels],
            seeds,
            lines,
            tuple(plain[label].family for label in labels),
            note=spread,
        )
    ]


def _after(plain: Mean, trained: dict[int, Sequence[float]], steps: int) -> Mean:
    """Return the bits of a training after some of its steps; none after no step."""
    if not steps:
        return replace(plain, values={}, half_width=math.nan, note="no step is done")
    last = slice(steps - max(1, int(LAST * steps)), steps)
    values = {seed: float(np.mean(losses[last])) for seed, losses in trained.items()}
    return replace(plain, values=values, half_width=half_width([*values.values()]))
