"""How two records differ: in what they were made from, and in what came out.

A record's result is all of it but its provenance, and but the rows of quantities that
no machine repeats: times and machines may differ, the rest may not.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import product

from posenc_compare.analysis.core.canonical import Json, canonical
from posenc_compare.analysis.records.record import Record

# Of a record: the label stands for its specification.
UNTOLD = ("label", "provenance", "spec")


def same_cell(record: Record) -> bytes:
    """Return what two records share that answer the same question.

    Where and with which versions it was answered does not count.
    """
    spec = record.spec
    setting = {k: v for k, v in spec.setting.items() if k != "device"}
    return canonical([[spec.scheme.name, spec.scheme.options], record.measure, setting])


def paired(
    one: Iterable[Record], other: Iterable[Record]
) -> Iterator[tuple[Record | None, Record | None]]:
    """Yield each record of two folders once, beside one that answers the same question.

    A question may have several records, as of other code or threads. Those of one key
    are pairs; of the others, those are whose specifications differ least. A record that
    is left over stands beside None.
    """
    sides = [{record.key: record for record in records} for records in (one, other)]
    both = sides[0].keys() & sides[1].keys()
    rest: dict[bytes, tuple[list[Record], list[Record]]]
    rest = defaultdict(lambda: ([], []))
    for key in both:
        yield sides[0][key], sides[1][key]
    for side, records in enumerate(sides):
        for key in records.keys() - both:
            rest[same_cell(records[key])][side].append(records[key])
    for left, right in rest.values():
        couples = product(left, right)
        for a, b in sorted(couples, key=lambda pair: len(_made_otherwise(*pair))):
            if a in left and b in right:
                left.remove(a)
                right.remove(b)
                yield a, b
        yield from ((a, None) for a in left)
        yield from ((None, b) for b in right)


def result(record: Record) -> bytes:
    """Return the canonical text of what came out."""
    told = {n: v for n, v in record.to_json().items() if n not in UNTOLD}
    rows = [asdict(row) for row in record.repeatable_rows]
    return canonical({**told, "rows": rows})


def difference(one: Record, other: Record) -> list[str]:
    """Return what differs between two records of a cell, in words; [] if nothing.

    Numbers are compared relative to the larger of the two.
    """
    found = _made_otherwise(one, other)
    if result(one) == result(other):
        return found
    if one.status != other.status:
        return [*found, f"status: {one.status} and {other.status}"]
    values = [
        (_relative(a, b), name)
        for name, a, b in _pairs(_numbers(one), _numbers(other))
        if a != b
    ]
    if values:
        largest, name = max(values)
        found.append(f"{len(values)} numbers, by up to {largest:.1e} relative ({name})")
    first = [_first_loss(record) for record in (one, other)]
    if first[0] != first[1]:
        found.append(f"loss of the first step, by {_relative(*first):.1e} relative")
    return found or ["text or arrays"]


def _made_otherwise(one: Record, other: Record) -> list[str]:
    return [
        f"{name}: {_short(a)} and {_short(b)}"
        for name, a, b in _pairs(one.spec.to_json(), other.spec.to_json())
        if a != b
    ]


def _first_loss(record: Record) -> Json:
    losses = record.arrays.get("training_bits")
    return losses[0] if isinstance(losses, list) and losses else None


def _numbers(record: Record) -> dict[str, Json]:
    return {
        f"{row.quantity} {row.case} {row.x}": row.value
        for row in record.repeatable_rows
    }


def _pairs(
    one: Mapping[str, Json], other: Mapping[str, Json], above: str = ""
) -> list[tuple[str, Json, Json]]:
    """Return name and both values of every leaf of two nested dicts."""
    pairs = []
    for name in {**one, **other}:
        a, b = one.get(name), other.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            pairs += _pairs(a, b, f"{above}{name}.")
        else:
            pairs.append((f"{above}{name}", a, b))
    return pairs


def _relative(a: Json, b: Json) -> float:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0


def _short(value: Json) -> str:
    return str(value)[:12]
