"""Which rule extends a checkpoint, as far as records of retrieval say.

Rules are compared by three scores, one after the other: needles found beyond the
trained length, bits per byte there, and bits within the trained length. A score
separates two rules only if the test of all pairs shows a difference (`stats.order`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from posenc_compare.errors import ConfigError
from posenc_compare.records.record import Record
from posenc_compare.show.frame import Frame
from posenc_compare.show.retrieval import (
    chance,
    fillers_of,
    retrieval_rows,
    scores,
    usable,
)
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.order import order
from posenc_compare.stats.pairs import FEWEST


@dataclass(frozen=True)
class Advice:
    """What records say of rules.

    Attributes:
        rules: that are left, the one with most needles first.
        reasons: a line for each score.
        rows: numbers of every rule by their names, None where there is none.
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
    settings = [record.spec.setting for record in usable(records)]
    models = {str(setting["model"]) for setting in settings}
    trained = {int(str(setting["trained"])) for setting in settings}
    lengths = {int(str(setting["read_length"])) for setting in settings}
    if len(models) != 1 or len(trained) != 1 or max(lengths) <= max(trained):
        raise ConfigError(
            f"evidence must be records of retrieval of one checkpoint, also beyond its "
            f"trained length, got {len(models)} checkpoints and lengths up to "
            f"{max(lengths, default=0)}; `--evidence DIR` with records of `hf evaluate "
            f"MODEL --retrieval --lengths 2048,16384` would work"
        )
    length, beyond = trained.pop(), max(lengths)
    within = max((one for one in lengths if one <= length), default=0)
    rows = retrieval_rows(records)
    rows["bits"] = rows[fillers_of(rows)].mean(axis=1)
    by_seed = rows.groupby(["rule", "length", "seed"])[["share", "bits"]].mean()
    values = {
        "found": _at(by_seed, beyond, "share"),
        "bits beyond": _at(by_seed, beyond, "bits"),
        "bits within": _at(by_seed, within, "bits"),
    }
    rules = values["found"].mean(axis=1).sort_values(ascending=False, kind="stable")
    if len(rules) < 2:
        raise ConfigError(
            f"evidence must hold two rules or more at {beyond} tokens, got "
            f"{', '.join(rules.index)}"
        )
    left, reasons = [*rules.index], []
    for name, table in values.items():
        left, reason = _best(name, left, table)
        reasons.append(reason)
    about = (
        f"{models.pop()}, trained at {length} tokens; found and bits beyond at "
        f"{beyond}, bits within at {within} tokens; factor {beyond / length:g}; "
        f"{rows['seed'].nunique()} texts of each filler; chance {chance(records):.2f}"
    )
    found = scores(rows).loc[beyond, ["needles", "share", "low", "high"]]
    found = found.rename(columns={"share": "found"}).astype({"needles": int})
    for name in ("bits beyond", "bits within"):
        found[name] = values[name].mean(axis=1)
        widths = [*map(half_width, values[name].to_numpy())]
        found[f"{name} ±"] = pd.Series(widths, values[name].index, "float64")
    found = found.reset_index().astype(object)
    numbers = found.where(found.notna(), None).to_dict("records")
    return Advice(tuple(left), tuple(reasons), tuple(numbers), about)


def _at(by_seed: Frame, length: int, name: str) -> Frame:
    """Return a score at a length by rule and seed."""
    own = by_seed[by_seed.index.get_level_values("length") == length]
    return own[name].droplevel("length").unstack("seed").dropna(how="all")


def _best(name: str, rules: list[str], values: Frame) -> tuple[list[str], str]:
    """Return the rules that a score leaves, and what it says of them."""
    if len(rules) == 1:
        return rules, f"{name}: one rule is left"
    known = [rule for rule in rules if rule in values.index]
    if len(known) < 2:
        return rules, f"{name}: recorded for {len(known)} of {len(rules)} rules"
    sign = -1 if name == "found" else 1
    ranked = order(sign * values.loc[known])
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
