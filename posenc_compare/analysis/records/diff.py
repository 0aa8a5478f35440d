"""How two records differ: in what they were made from, and in what came out.

A record's result is all of it but its provenance, and but the rows of quantities that
no machine repeats: times and machines may differ, the rest may not.
"""

import math
from typing import Any

from posenc_compare.analysis.core.canonical import canonical

Record = dict[str, Any]
# Of a record: key and label stand for its specification.
UNTOLD = ("key", "label", "provenance")


def same_cell(record: Record) -> bytes:
    """Return what two records share that answer the same question.

    Where and with which versions it was answered does not count.
    """
    spec = record["spec"]
    setting = {k: v for k, v in spec["setting"].items() if k != "device"}
    scheme = [spec["scheme"]["name"], spec["scheme"]["options"]]
    return canonical([scheme, spec["measure"]["name"], setting])


def result(record: Record) -> bytes:
    """Return the canonical text of what came out."""
    told = {name: v for name, v in record.items() if name not in (*UNTOLD, "spec")}
    return canonical({**told, "rows": repeatable(record)})


def repeatable(record: Record) -> list[dict[str, Any]]:
    """Return the rows that the same cell must have again."""
    facts = record["quantities"]
    return [
        row for row in record["rows"] if facts[row["quantity"]].get("repeatable", True)
    ]


def difference(one: Record, other: Record) -> list[str]:
    """Return what differs between two records of a cell, in words; [] if nothing.

    Numbers are compared relative to the larger of the two.
    """
    found = [
        f"{name}: {_short(a)} and {_short(b)}"
        for name, a, b in _pairs(one["spec"], other["spec"])
        if a != b
    ]
    if result(one) == result(other):
        return found
    if one["status"] != other["status"]:
        return [*found, f"status: {one['status']} and {other['status']}"]
    values = [
        (_relative(a, b), name)
        for name, a, b in _pairs(_numbers(one), _numbers(other))
        if a != b
    ]
    if values:
        largest, name = max(values)
        found.append(f"{len(values)} numbers, by up to {largest:.1e} relative ({name})")
    first = [
        record["arrays"].get("training_bits", [None])[0] for record in (one, other)
    ]
    if first[0] != first[1]:
        found.append(f"loss of the first step, by {_relative(*first):.1e} relative")
    return found or ["text or arrays"]


def _numbers(record: Record) -> dict[str, Any]:
    return {
        " ".join(str(row[part]) for part in ("quantity", "case", "x")): row["value"]
        for row in repeatable(record)
    }


def _pairs(one: Record, other: Record, above: str = "") -> list[tuple[str, Any, Any]]:
    """Return name and both values of every leaf of two nested dicts."""
    pairs = []
    for name in {**one, **other}:
        a, b = one.get(name), other.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            pairs += _pairs(a, b, f"{above}{name}.")
        else:
            pairs.append((f"{above}{name}", a, b))
    return pairs


def _relative(a: Any, b: Any) -> float:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0


def _short(value: Any) -> str:
    return str(value)[:12]
