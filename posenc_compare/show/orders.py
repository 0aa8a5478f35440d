"""Orders that papers have published, trained again: claims, and what becomes of them.

A claim says that one score is better than another, alike or no worse. All claims of one
published order that say `better` are tested together, on differences seed by seed, so
that any of their verdicts is wrong with a chance of at most 5 %. The others go by their
95 % intervals. `published_orders` lists them.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from posenc_compare.records.record import Record
from posenc_compare.settings.canonical import Body
from posenc_compare.show.differences import Difference
from posenc_compare.show.format import Table
from posenc_compare.show.frame import Numbers, by_scheme
from posenc_compare.show.tasks import by_task, reciprocal_ranks
from posenc_compare.stats.intervals import LEVEL, half_width
from posenc_compare.stats.level import ALPHA
from posenc_compare.stats.pairs import adjusted_p_of

RANKS = "reciprocal_rank"  # of the exact match, over all tasks


@dataclass(frozen=True)
class Score:
    """A number of trained networks."""

    scheme: str  # with its options, as in `--schemes`
    quantity: str = "bits_per_byte"  # its name, or `RANKS`
    times: int = 1  # where on a curve, in training lengths; 0 off a curve
    case: str = ""  # the condition it was measured under
    task: str = "language"  # that networks were trained on
    convolution: str = "none"  # of the networks

    def __str__(self) -> str:
        """Return what a table calls it."""
        case = f" + {self.case}" if self.case else ""
        if self.convolution != "none":
            case += f" + convolution {self.convolution}"
        place = f" at {self.times} L" if self.times else ""
        task = "" if self.task == "language" or self.quantity == RANKS else self.task
        words = [task, self.quantity.replace("_", " ")]
        return f"{self.scheme}{case}: {' '.join(filter(None, words))}{place}"


@dataclass(frozen=True)
class Claim:
    """A statement of two scores."""

    first: Score
    second: Score
    kind: Literal["better", "alike", "no worse"] = "better"
    margin: float = 0.0  # differences up to which scores are alike, in their unit

    def __str__(self) -> str:
        """Return the statement."""
        words = {"better": "better than", "alike": "like", "no worse": "no worse than"}
        margin = f" (up to {self.margin:g})" if self.margin else ""
        return f"{self.first} is {words[self.kind]} {self.second}{margin}"


@dataclass(frozen=True)
class PublishedOrder:
    """What a paper says of schemes, and the runs that can show it."""

    says: str  # the statement, in a sentence
    source: str
    claims: tuple[Claim, ...]
    choices: Body = field(default_factory=dict)  # of `compare`, by name
    why: str = ""  # what is known of a disagreement

    @property
    def runs(self) -> dict[str, str]:
        """Return the schemes of each run, as in `--schemes`, by its convolution."""
        runs: dict[str, list[str]] = {}
        for claim in self.claims:
            for score in (claim.first, claim.second):
                runs.setdefault(score.convolution, []).append(score.scheme)
        return {one: ",".join(dict.fromkeys(names)) for one, names in runs.items()}


@dataclass(frozen=True)
class Outcome(Difference):
    """What became of a claim.

    Differences are above 0 where the first score is the better. `p` is adjusted for all
    claims of the order that say `better`; NaN for the others, which go by intervals.
    """

    claim: Claim

    @property
    def verdict(self) -> str:
        """Return whether the claim agrees with the records, disagrees or neither."""
        if not len(self.values):
            return "not measured"
        margin, width = self.claim.margin, half_width(self.values)
        match self.claim.kind:
            case "better":
                agrees = self.p <= ALPHA and self.mean > 0
                disagrees = self.p <= ALPHA and self.mean < 0
            case "alike":
                agrees = abs(self.mean) + width <= margin
                disagrees = abs(self.mean) - width > margin
            case "no worse":
                agrees = self.mean - width >= -margin
                disagrees = self.mean + width < -margin
        return "agrees" if agrees else "disagrees" if disagrees else "not separable"


def outcomes(order: PublishedOrder, records: list[Record]) -> list[Outcome]:
    """Return what becomes of every claim of an order."""
    tasks, numbers, gaps = by_task(records), Numbers(records), []
    better = {n: q.better for record in records for n, q in record.quantities.items()}
    for claim in order.claims:
        first, second = (
            pd.Series(_values(score, tasks, numbers), dtype="float64")
            for score in (claim.first, claim.second)
        )
        lower = better.get(claim.first.quantity) == "lower"
        gaps.append(second - first if lower else first - second)
    table = pd.DataFrame(gaps).sort_index(axis=1).to_numpy()
    tested = [claim.kind == "better" for claim in order.claims]
    p = np.full(len(table), math.nan)
    p[tested] = adjusted_p_of(table[tested])
    return [
        Outcome(row[np.isfinite(row)], float(one), claim)
        for claim, row, one in zip(order.claims, table, p, strict=True)
    ]


def verdict(found: Iterable[Outcome]) -> str:
    """Return the verdict of an order: one claim that disagrees decides it.

    An order is measured if one of its claims is.
    """
    verdicts = {outcome.verdict for outcome in found}
    if len(verdicts) == 1:
        return verdicts.pop()
    return "disagrees" if "disagrees" in verdicts else "not separable"


def order_table(name: str, order: PublishedOrder, found: list[Outcome]) -> Table:
    """Return a table with a row for each claim."""
    seeds = max((len(outcome.values) for outcome in found), default=1)
    rows = [[str(one.claim), one.cell(), one.verdict] for one in found]
    lines = [f"published: {order.says} ({order.source})", f"verdict: {verdict(found)}"]
    seeds_alone = f"{seeds} seed{'s' * (seeds != 1)}"
    intervals = f", {LEVEL:.0%} intervals of paired differences" * (seeds > 1)
    return Table(
        name,
        ["claim", "ours", "verdict"],
        rows,
        seeds,
        (*lines, *filter(None, [order.why])),
        note=f"{seeds_alone}{intervals}; * p ≤ {ALPHA:g}",
    )


def _values(
    score: Score, tasks: Mapping[str, list[Record]], numbers: Numbers
) -> dict[int, float]:
    """Return a score by seed."""
    if score.quantity == RANKS:
        ranks = by_scheme(reciprocal_ranks(numbers, tasks, "exact_match", score.times))
        return ranks[score.scheme].values if score.scheme in ranks else {}
    found = {}
    for record in tasks.get(score.task, []):
        length = record.spec.setting.get("length")
        if record.spec.setting.get("convolution", "none") != score.convolution:
            continue
        x = score.times * length if isinstance(length, int) and score.times else None
        for row in record.rows:
            place = (record.label, row.quantity, row.case, row.x)
            if place == (score.scheme, score.quantity, score.case, x):
                if row.value is not None:
                    found[record.spec.seed] = float(row.value)
    return found
