"""Which rule extends a checkpoint, as far as records of retrieval say.

Rules are compared by three scores, one after the other: needles found beyond the
trained length, bits per byte there, and bits within the trained length. A score
separates two rules only if the test of all pairs shows a difference (`stats.order`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_compare.errors import ConfigError
from posenc_compare.records.record import Record
from posenc_compare.show.retrieval import (
    BITS,
    SHARE,
    by_rule,
    chance,
    scores,
    usable,
)
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.order import order
from posenc_compare.stats.pairs import FEWEST

CRITERIA = ("found", "bits beyond", "bits within")


@dataclass(frozen=True)
class Advice:
    """What records say of rules.

    Attributes:
        rules: that are left, the one with most needles first.
        reasons: a line for each score.
        rows: of every rule, by name of the number.
        about: checkpoint, lengths and texts of the records.
    """

    rules: tuple[str, ...]
    reasons: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    about: str

    @property
    def verdict(self) -> str:
        """Return the choice in words."""
        if len(self.rules) == 1:
            return self.rules[0]
        return f"no difference seen between {', '.join(self.rules)}"


def advice(records: Sequence[Record]) -> Advice:
    """Return what records of retrieval say of rules.

    Raises:
        ConfigError: if they hold no length beyond the trained one, or several
            checkpoints.
    """
    chosen = usable(records)
    models = {str(record.spec.setting["model"]) for record in chosen}
    trained = {int(str(record.spec.setting["trained"])) for record in chosen}
    lengths = {int(str(record.spec.setting["read_length"])) for record in chosen}
    if len(models) != 1 or len(trained) != 1 or max(lengths) <= max(trained):
        raise ConfigError(
            f"evidence must be records of retrieval of one checkpoint, also beyond its "
            f"trained length, got {len(models)} checkpoints and lengths up to "
            f"{max(lengths, default=0)}; `--evidence DIR` with records of `hf evaluate "
            f"MODEL --retrieval --lengths 2048,16384` would work"
        )
    by_name = by_rule(chosen)
    rules = {
        rule
        for rule, own in by_name.items()
        if any(one.spec.setting["read_length"] == max(lengths) for one in own)
    }
    if len(rules) < 2:
        raise ConfigError(
            f"evidence must hold two rules or more at {max(lengths)} tokens, got "
            f"{', '.join(rules)}"
        )
    beyond, within = max(lengths), max({*lengths} & {*range(max(trained) + 1)} or {0})
    values = {
        "found": _by_seed(by_name, beyond, SHARE),
        "bits beyond": _by_seed(by_name, beyond, BITS),
        "bits within": _by_seed(by_name, within, BITS),
    }
    left = sorted(values["found"], key=lambda r: -np.nanmean(values["found"][r]))
    reasons = []
    for name in CRITERIA:
        left, reason = _best(name, left, values[name])
        reasons.append(reason)
    found = scores(chosen)
    rows = []
    for rule in values["found"]:
        score = found[rule, beyond]
        row: dict[str, Any] = {"rule": rule}
        low, high = score.interval
        row |= {"needles": int(score.asked), "found": score.share}
        row |= {"low": low, "high": high}
        for name in CRITERIA[1:]:
            own = values[name].get(rule, [])
            row[name] = float(np.nanmean(own)) if len(own) else None
            row[f"{name} ±"] = half_width(own) if len(own) > 1 else None
        rows.append(row)
    seeds = len({record.spec.seed for record in chosen})
    about = (
        f"{models.pop()}, trained at {max(trained)} tokens; found and bits beyond at "
        f"{beyond}, bits within at {within} tokens; factor {beyond / max(trained):g}; "
        f"{seeds} texts of each filler; chance {chance(chosen):.2f}"
    )
    return Advice(tuple(left), tuple(reasons), tuple(rows), about)


def _by_seed(
    records: Mapping[str, Sequence[Record]], length: int, quantity: str
) -> dict[str, list[float]]:
    """Return the mean of a quantity over fillers by rule, for each seed."""
    seeds = sorted({one.spec.seed for own in records.values() for one in own})
    found: dict[str, list[float]] = defaultdict(lambda: [np.nan] * len(seeds))
    for rule, of_rule in records.items():
        for record in of_rule:
            if record.spec.setting["read_length"] != length:
                continue
            own = [r.value for r in record.rows if r.quantity.endswith(quantity)]
            known = [value for value in own if value is not None]
            if known:
                found[rule][seeds.index(record.spec.seed)] = float(np.mean(known))
    return {**found}


def _best(
    name: str, rules: list[str], values: dict[str, list[float]]
) -> tuple[list[str], str]:
    """Return the rules that a score leaves, and what it says of them."""
    if len(rules) == 1:
        return rules, f"{name}: one rule is left"
    known = [rule for rule in rules if rule in values]
    if len(known) < 2:
        return rules, f"{name}: recorded for {len(known)} of {len(rules)} rules"
    sign = -1 if name == "found" else 1
    ranked = order([[sign * value for value in values[rule]] for rule in known])
    if not ranked.groups:
        return rules, f"{name}: {ranked.seeds} seeds, {FEWEST} are needed"
    few = {known[place] for place in ranked.left_out} | {*rules} - {*known}
    untested = [rule for rule in rules if rule in few]
    more = f"; with fewer than {FEWEST} seeds: {', '.join(untested)}" if few else ""
    if len(ranked.groups) == 1:
        return rules, f"{name}: no difference seen{more}"
    best = {known[place] for place in ranked.groups[0]}
    ahead = [rule for rule in rules if rule in best]
    left = [rule for rule in rules if rule in best | few]  # no test excludes these
    return left, f"{name}: {', '.join(ahead)} before the others{more}"
