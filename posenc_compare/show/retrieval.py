"""Retrieval of checkpoints beside bits per byte, and which rule extends a checkpoint.

Rules are compared by three scores, one after the other: needles found beyond the
trained length, bits per byte there, and bits within the trained length. A score
separates two rules only if the test of all pairs shows a difference (`stats.order`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from posenc_compare.errors import ConfigError
from posenc_compare.records.record import Record
from posenc_compare.settings.retrieval import DEPTHS
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.frame import Frame, usable
from posenc_compare.stats.intervals import half_width, wilson
from posenc_compare.stats.level import FEWEST
from posenc_compare.stats.order import most_common, order

MEASURE, AS_TRAINED = "retrieval", "as trained"
BITS = "_bits_per_byte"  # behind the name of a filler
COLUMNS = ["rule", "factor", "length", "seed", "needles", "share", "found", "record"]


def retrieval_rows(records: Iterable[Record]) -> Frame:
    """Return a row per usable record, by length and rule, as trained first.

    The name of a rule includes the model if labels do, and the factor if there are
    several. Beside `COLUMNS`, each filler has a column of bits per byte.
    """
    rows = []
    for one in usable(records, MEASURE):
        options = one.spec.scheme.options
        values = {row.quantity: row.value for row in one.rows}
        rule = str(options.get("scaling", AS_TRAINED))
        rule += f" [{', '.join(one.settings)}]" * bool(one.settings)
        length = int(str(one.spec.setting["read_length"]))
        needles, share = values["needles"], values["retrieval"]
        if needles is None or share is None:
            continue  # a share that was not measured is not 0
        facts = (rule, _factor(one), length, one.spec.seed)
        facts = (*facts, needles, share, share * needles)
        bits = {name: v for name, v in values.items() if name.endswith(BITS)}
        rows.append({**dict(zip(COLUMNS, (*facts, one), strict=True)), **bits})
    found: Frame = pd.DataFrame(rows, columns=None if rows else COLUMNS)
    found = found.astype(dict.fromkeys(fillers_of(found), "float64"))
    several = found.groupby("rule")["factor"].transform("nunique") > 1
    factors = ", factor " + found["factor"].map("{:g}".format)
    found["rule"] += factors.where(several, "")
    found["scaled"] = found["rule"] != AS_TRAINED
    return found.sort_values(["length", "scaled", "rule"], ignore_index=True)


def fillers_of(rows: Frame) -> list[str]:
    """Return the columns of bits per byte."""
    return sorted(name for name in rows.columns if name.endswith(BITS))


def scores(rows: Frame) -> Frame:
    """Return needles, share found, its interval, and mean bits by length and rule.

    The interval from `low` to `high` takes needles as independent.
    """
    parts = rows.groupby(["length", "rule"], sort=False)
    found = parts[["needles", "found"]].sum().join(parts[fillers_of(rows)].mean())
    ends = [wilson(f, n) for f, n in zip(found["found"], found["needles"], strict=True)]
    found[["low", "high"]] = ends
    return found.assign(share=found["found"] / found["needles"])


def chances(records: Iterable[Record]) -> list[float]:
    """Return the share found by a model that knows all values and no key.

    Of texts with several counts of needles, the least and the greatest share.
    """
    counts = {int(str(r.spec.setting["needles"])) for r in usable(records, MEASURE)}
    return sorted({1 / (DEPTHS * end) for end in (min(counts), max(counts))})


def _chance_text(records: Iterable[Record]) -> str:
    return " to ".join(f"{end:.2f}" for end in chances(records))


def retrieval_tables(records: list[Record]) -> list[Table]:
    """Return the table of retrieval beside bits per byte, if there is any."""
    rows = retrieval_rows(records)
    if rows.empty:
        return []
    found, fillers = scores(rows), fillers_of(rows)
    head = ["rule", "length", "needles", "found ↑", "95 % interval"]
    head += [f"bits per byte of {name.removesuffix(BITS)} ↓" for name in fillers]
    body: list[list[str | Cell]] = []
    for (length, rule), own in rows.groupby(["length", "rule"], sort=False):
        one = found.loc[length, rule]
        texts = [rule, str(length), f"{one['needles']:.0f}", f"{one['share']:.2f}"]
        line: list[str | Cell] = [*texts, f"{one['low']:.2f} to {one['high']:.2f}"]
        for name in fillers:
            n = int(own[name].count())
            line.append(Cell(one[name], half_width(own[name]), n) if n else "")
        body.append(line)
    note = f"chance {_chance_text(records)}; Wilson's interval over needles"
    return [
        Table(
            "retrieval beside bits per byte",
            head,
            body,
            rows["seed"].nunique(),
            measures=frozenset({MEASURE}),
            note=note,
        )
    ]


@dataclass(frozen=True)
class Advice:
    """What records say of rules."""

    rules: tuple[str, ...]  # that are left, the one with most needles first
    reasons: tuple[str, ...]  # a line for each score
    rows: tuple[dict[str, Any], ...]  # numbers of every rule by name; None: no number
    about: str  # checkpoint, lengths and texts of the records
    tested: bool  # whether two rules or more have seeds enough for a test

    @property
    def verdict(self) -> str:
        """Return the choice in words."""
        if len(self.rules) == 1:
            return self.rules[0]
        rules = ", ".join(self.rules)
        if not self.tested:
            return f"not tested, too few seeds: {rules}"
        return f"no difference seen between {rules}"


def advice(records: Iterable[Record], asked: int, needed: float = 0.0) -> Advice:
    """Return what records of retrieval say of rules for a length.

    The records beyond the trained length that are nearest to `asked` tokens count, and
    of several factors the nearest to `needed`, by default that of `asked`.
    """
    records = usable(records, MEASURE)
    model, length = _checkpoint(records, asked)
    needed = needed or asked / length
    lengths = {int(str(one.spec.setting["read_length"])) for one in records}
    beyond = _nearest((one for one in lengths if one > length), asked)
    scaled = [
        _factor(r)
        for r in records
        if r.spec.scheme.options.get("scaling")
        and r.spec.setting["read_length"] == beyond
    ]
    factor = _nearest(scaled, needed) if scaled else 1.0
    records = [
        r
        for r in records
        if not r.spec.scheme.options.get("scaling") or _factor(r) == factor
    ]
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
    if beyond != asked:
        reasons.append(f"evidence at {beyond} tokens, none at {asked}")
    if not math.isclose(factor, needed, rel_tol=0.01):
        wanted = f"{asked} tokens need {needed:g}"
        reasons.append(f"evidence at factor {factor:g}, {wanted}")
    for name, table in values.items():
        left, reason = _best(name, left, table)
        reasons.append(reason)
    chance = chances(records)[-1]
    found = scores(rows).loc[beyond].loc[rules.index]
    found = found[["needles", "share", "low", "high"]]
    found = found.rename(columns={"share": "found"}).astype({"needles": int})
    found["above chance"] = found["low"] > chance
    found["found within"] = _at(by_seed, within, "share").mean(axis=1)
    for name in ("bits beyond", "bits within"):
        found[name] = values[name].mean(axis=1)
        widths = [*map(half_width, values[name].to_numpy())]
        found[f"{name} ±"] = pd.Series(widths, values[name].index, "float64")
    if by_chance := [*found.index[~found["above chance"]]]:
        reasons.append(f"not better than chance, {chance:g}: {', '.join(by_chance)}")
    reasons += _losses(left, values["bits within"], within)
    texts = _count(rows["seed"].nunique(), "text")
    about = (
        f"{model}, trained at {length} tokens; found and bits per byte beyond at "
        f"{beyond}, within at {within or 'no'} tokens; factor {factor:g}; {texts} of "
        f"each filler; chance {_chance_text(records)}"
    )
    found = found.reset_index().astype(object)
    numbers = found.where(found.notna(), None).to_dict("records")
    tested = any(most_common(v.reindex(left)) >= FEWEST for v in values.values())
    return Advice(tuple(left), tuple(reasons), tuple(numbers), about, tested)


def _checkpoint(records: list[Record], asked: int) -> tuple[str, int]:
    """Return the one checkpoint of records that reach beyond its trained length."""
    settings = [record.spec.setting for record in records]
    models = {str(setting["model"]) for setting in settings}
    trained = {int(str(setting["trained"])) for setting in settings}
    if len(models) != 1 or len(trained) != 1:
        raise ConfigError(
            f"evidence must be records of retrieval of one checkpoint, got "
            f"{len(models)} checkpoints; `hf evaluate MODEL --retrieval` makes them"
        )
    (model,), (length,) = models, trained
    if (longest := max(int(str(one["read_length"])) for one in settings)) <= length:
        raise ConfigError(
            f"evidence must reach beyond the {length} tokens that {model} was trained "
            f"at, got lengths up to {longest}; `--evidence DIR` with records of `hf "
            f"evaluate MODEL --retrieval --lengths {length},{max(asked, 2 * length)} "
            f"--windows {FEWEST}` would work"
        )
    if several := {s for r in records for s in r.settings if s[:4] != "cpu="}:
        raise ConfigError(
            f"evidence must be of one setting, got {', '.join(sorted(several))}; "
            f"a folder with the records of one of them would work"
        )
    return model, length


def _losses(rules: list[str], bits: Frame, within: int) -> list[str]:
    """Return what each scaling that is left costs within the trained length."""
    found = []
    for rule in rules:
        if rule != AS_TRAINED and {rule, AS_TRAINED} <= {*bits.index}:
            lost = bits.loc[rule] - bits.loc[AS_TRAINED]
            if not lost.notna().any():  # no common seed
                continue
            width = half_width(lost.to_numpy())
            more = "" if math.isnan(width) else f" ± {width:.3f}"
            found.append(
                f"{rule} costs {lost.mean():.3f}{more} bits per byte at {within} tokens"
            )
    return found


def _nearest(values: Iterable[float], aim: float) -> Any:
    """Return the value whose ratio to `aim` is nearest to 1, the larger of two."""
    return min(values, key=lambda value: (abs(math.log(value / aim)), -value))


def _count(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number} {what}{'s' * (number != 1)}"


def _factor(record: Record) -> float:
    return float(str(record.spec.scheme.options.get("factor", 1.0)))


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
        return rules, f"{name}: {_count(ranked.seeds, 'seed')}, {FEWEST} are needed"
    few = {known[place] for place in ranked.left_out} | {*rules} - {*known}
    untested = [rule for rule in rules if rule in few]
    more = f"; with fewer than {FEWEST} seeds: {', '.join(untested)}" if few else ""
    if len(ranked.groups) == 1:
        return rules, f"{name}: no difference seen{more}"
    best = {known[place] for place in ranked.groups[0]}
    ahead = [rule for rule in rules if rule in best]
    left = [rule for rule in rules if rule in best | few]  # no test excludes these
    return left, f"{name}: {', '.join(ahead)} before the others{more}"
