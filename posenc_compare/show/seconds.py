"""Training at equal seconds beside training at equal steps.

A scheme that costs more a step has had fewer steps when the quickest has done all of
its own. What each predicted then is in the record of its training. The learning rate
of the slower ones had not fallen as far at that time, which is to their disadvantage.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from posenc_compare.records.record import Record
from posenc_compare.show.frame import by_scheme, means_of, with_values
from posenc_compare.show.ranking import Column

ROUNDING = 1e-9  # of a quotient: the quickest does all of its steps
LAST = 0.1  # of the steps done, over which training bits are averaged


def seconds_columns(records: list[Record]) -> list[Column]:
    """Return columns if two schemes or more have a cost and a training, else none."""
    losses: dict[str, dict[int, list[float]]] = defaultdict(dict)
    for record in records:
        bits = record.arrays.get("training_bits")
        if record.status == "ok" and isinstance(bits, Sequence):
            losses[record.label][record.spec.seed] = np.array(bits, float).tolist()
    means = means_of(records)
    known = means[(means["n"] > 0) & means["scheme"].isin(losses)]
    cost = by_scheme(known[known["quantity"] == "step_seconds"])
    plain = by_scheme(known[known["quantity"] == "training_bits"])
    plain = {label: mean for label, mean in plain.items() if label in cost}
    if len(plain) < 2:
        return []
    done = {label: min(map(len, losses[label].values())) for label in plain}
    limit = min(cost[label].mean * done[label] for label in plain)
    counts, after = {}, {}
    for label, mean in plain.items():
        steps = min(int(limit / cost[label].mean * (1 + ROUNDING)), done[label])
        last = slice(steps - max(1, int(LAST * steps)), steps)
        own = losses[label] if steps else {}
        found = {seed: float(np.mean(bits[last])) for seed, bits in own.items()}
        note = "" if steps else "no step is done"
        after[label] = with_values(mean, found, note=note)
        counts[label] = with_values(mean, dict.fromkeys(mean.values, float(steps)))
    measure = next(iter(plain.values())).measure
    return [
        Column(f"steps in {limit:.3g} s", measure, counts),
        Column("after all steps", measure, plain, "lower"),
        Column(f"after {limit:.3g} s", measure, after, "lower"),
    ]
