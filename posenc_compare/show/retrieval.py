"""Retrieval of checkpoints beside bits per byte, by rule and length."""

from collections.abc import Iterable
from itertools import permutations

import pandas as pd

from posenc_compare.records.record import Record
from posenc_compare.settings.retrieval import DEPTHS
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.frame import Frame
from posenc_compare.stats.intervals import half_width, wilson

AS_TRAINED = "as trained"
BITS = "_bits_per_byte"  # behind the name of a filler
COLUMNS = ["rule", "factor", "length", "seed", "needles", "share", "found", "record"]


def usable(records: Iterable[Record]) -> list[Record]:
    """Return the records of retrieval that have a result."""
    return [r for r in records if r.measure == "retrieval" and r.status == "ok"]


def retrieval_rows(records: Iterable[Record]) -> Frame:
    """Return a row per usable record, by length and rule, as trained first.

    A rule has the name of the model where labels name one, and of several factors its
    own. Beside `COLUMNS`, each filler has a column of bits per byte.
    """
    rows = []
    for one in usable(records):
        options, values = (
            one.spec.scheme.options,
            {r.quantity: r.value for r in one.rows},
        )
        rule = str(options.get("scaling", AS_TRAINED))
        rule += f" [{', '.join(one.settings)}]" * bool(one.settings)
        factor = float(str(options.get("factor", 1.0)))
        length = int(str(one.spec.setting["read_length"]))
        needles, share = values["needles"] or 0.0, values["retrieval"] or 0.0
        facts = (rule, factor, length, one.spec.seed, needles, share, share * needles)
        bits = {name: v for name, v in values.items() if name.endswith(BITS)}
        rows.append({**dict(zip(COLUMNS, (*facts, one), strict=True)), **bits})
    found = pd.DataFrame(rows, columns=None if rows else COLUMNS)
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

    Args:
        rows: as `retrieval_rows` returns them.

    Returns:
        The interval from `low` to `high` takes needles as independent.
    """
    parts = rows.groupby(["length", "rule"], sort=False)
    found = parts[["needles", "found"]].sum().join(parts[fillers_of(rows)].mean())
    ends = [wilson(f, n) for f, n in zip(found["found"], found["needles"], strict=True)]
    found[["low", "high"]] = ends
    return found.assign(share=found["found"] / found["needles"])


def chance(records: Iterable[Record]) -> float:
    """Return the share that a model finds which knows all values and no key."""
    counts = {int(str(r.spec.setting["needles"])) for r in usable(records)}
    return 1 / (DEPTHS * min(counts))


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
            line.append(Cell(one[name], half_width(own[name]), own[name].count()))
        body.append(line)
    note = f"chance {chance(records):.2f}; Wilson's interval over needles"
    return [
        Table(
            "retrieval beside bits per byte",
            head,
            body,
            rows["seed"].nunique(),
            (*misled(found),),
            frozenset({"retrieval"}),
            note=note,
        )
    ]


def misled(found: Frame) -> list[str]:
    """Return a line for each pair of rules that bits rank otherwise than needles.

    Intervals of their shares do not overlap.

    Args:
        found: as `scores` returns it.
    """
    lines = []
    for ((length, one), a), ((same, other), b) in permutations(found.iterrows(), 2):
        if length != same or a["high"] >= b["low"]:
            continue
        fewer = [k.removesuffix(BITS) for k in fillers_of(found) if a[k] < b[k]]
        if fewer:
            lines.append(
                f"bits mislead at {length}: {one} has fewer bits of "
                f"{' and '.join(fewer)} than {other}, and finds {a['share']:.2f} of "
                f"the needles, not {b['share']:.2f}"
            )
    return lines
