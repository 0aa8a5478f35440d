"""Retrieval of checkpoints beside bits per byte, by rule and length."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from posenc_compare.records.record import Record
from posenc_compare.settings.retrieval import DEPTHS
from posenc_compare.show.format import Cell, Table
from posenc_compare.stats.intervals import half_width, wilson

AS_TRAINED = "as trained"
SHARE, NEEDLES, BITS = "retrieval", "needles", "_bits_per_byte"


@dataclass
class Score:
    """What one rule scores at one length, over all texts.

    Attributes:
        found: needles.
        asked: needles.
        bits: per byte, by filler, one for each seed.
    """

    found: float = 0.0
    asked: float = 0.0
    bits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def share(self) -> float:
        """Return the share of needles found."""
        return self.found / self.asked

    @property
    def interval(self) -> tuple[float, float]:
        """Return the interval of the share, which takes needles as independent."""
        return wilson(self.found, self.asked)

    def mean_bits(self, filler: str) -> float:
        """Return the bits per byte of a filler; NaN for none."""
        return float(np.mean(self.bits[filler])) if filler in self.bits else np.nan


def rule_of(record: Record) -> str:
    """Return the rule that a record is of, with the model where labels name one."""
    rule = str(record.spec.scheme.options.get("scaling", AS_TRAINED))
    return f"{rule} [{', '.join(record.settings)}]" if record.settings else rule


def usable(records: Iterable[Record]) -> list[Record]:
    """Return the records of retrieval that have a result."""
    return [r for r in records if r.measure == "retrieval" and r.status == "ok"]


def by_rule(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the usable records of every rule; of several factors, each by itself."""
    found: dict[str, dict[float, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in usable(records):
        factor = float(str(record.spec.scheme.options.get("factor", 1.0)))
        found[rule_of(record)][factor].append(record)
    return {
        f"{rule}, factor {factor:g}" if len(factors) > 1 else rule: own
        for rule, factors in found.items()
        for factor, own in sorted(factors.items())
    }


def scores(records: Iterable[Record]) -> dict[tuple[str, int], Score]:
    """Return the score of every rule and length, by both, in their order."""
    found: dict[tuple[str, int], Score] = defaultdict(Score)
    for rule, own in by_rule(records).items():
        for record in own:
            score = found[rule, int(str(record.spec.setting["read_length"]))]
            values = {row.quantity: row.value for row in record.rows}
            asked = values[NEEDLES] or 0.0
            score.asked += asked
            score.found += (values[SHARE] or 0.0) * asked
            for name, value in values.items():
                if name.endswith(BITS) and value is not None:
                    score.bits[name.removesuffix(BITS)].append(value)
    rules = sorted({rule for rule, _ in found}, key=lambda r: (r != AS_TRAINED, r))
    return {
        (rule, length): found[rule, length]
        for length in sorted({length for _, length in found})
        for rule in rules
        if (rule, length) in found
    }


def chance(records: Iterable[Record]) -> float:
    """Return the share that a model finds which knows all values and no key."""
    counts = {int(str(r.spec.setting["needles"])) for r in usable(records)}
    return 1 / (DEPTHS * min(counts))


def retrieval_tables(records: list[Record]) -> list[Table]:
    """Return the table of retrieval beside bits per byte, if there is any."""
    found = scores(records)
    if not found:
        return []
    fillers = sorted({filler for score in found.values() for filler in score.bits})
    head = ["rule", "length", "needles", "found ↑", "95 % interval"]
    head += [f"bits per byte of {filler} ↓" for filler in fillers]
    seeds = len({record.spec.seed for record in usable(records)})
    rows: list[list[str | Cell]] = []
    for (rule, length), score in found.items():
        low, high = score.interval
        row: list[str | Cell] = [rule, str(length), f"{score.asked:.0f}"]
        row += [f"{score.share:.2f}", f"{low:.2f} to {high:.2f}"]
        for filler in fillers:
            values = score.bits.get(filler, [])
            width = half_width(values) if len(values) > 1 else None
            row.append(Cell(score.mean_bits(filler), width, len(values)))
        rows.append(row)
    note = f"chance {chance(records):.2f}; Wilson's interval over needles"
    lines = (*misled(found, fillers),)
    return [
        Table(
            "retrieval beside bits per byte",
            head,
            rows,
            seeds,
            lines,
            frozenset({"retrieval"}),
            note=note,
        )
    ]


def misled(found: Mapping[tuple[str, int], Score], fillers: Iterable[str]) -> list[str]:
    """Return a line for each pair of rules that bits rank otherwise than needles.

    Intervals of their shares do not overlap.
    """
    lines = []
    for (one, length), (other, same) in permutations(found, 2):
        a, b = found[one, length], found[other, same]
        if length != same or a.interval[1] >= b.interval[0]:
            continue
        fewer = [f for f in fillers if a.mean_bits(f) < b.mean_bits(f)]
        if fewer:
            lines.append(
                f"bits mislead at {length}: {one} has fewer bits of "
                f"{' and '.join(fewer)} than {other}, and finds {a.share:.2f} of the "
                f"needles, not {b.share:.2f}"
            )
    return lines
