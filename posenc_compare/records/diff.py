"""How two records differ: in what they were made from, and in what came out.

A record's result is all of it but its provenance, and but the rows of quantities that
no machine repeats: times and machines may differ, the rest may not.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from posenc_compare.records.record import Record
from posenc_compare.settings.canonical import Json, canonical

# Parts of a record: a label is of its spec, quantities are words of its measure.
NO_RESULT = ("label", "provenance", "quantities", "spec")


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
    """Yield each record of two folders once, beside one that is like it.

    Records of one key are pairs. Then, in their order, those that answer the same
    question, and those of one scheme, measure, task and seed under other settings. Of
    these, settings that vary within a folder must be equal. One that is left over
    stands beside None.
    """
    left, right = ({record.key: record for record in side} for side in (one, other))
    varied = _varied(left.values(), right.values())

    def other_settings(record: Record) -> bytes:
        cell, setting = _same_scheme(record), record.spec.setting
        return canonical([cell, {name: setting.get(name) for name in varied[cell]}])

    for alike in (lambda record: record.key, same_cell, other_settings):
        rest: dict[str | bytes, list[Record]] = defaultdict(list)
        for record in right.values():
            rest[alike(record)].append(record)
        for record in list(left.values()):
            if same := rest[alike(record)]:
                yield left.pop(record.key), right.pop(same.pop(0).key)
    yield from ((record, None) for record in left.values())
    yield from ((None, record) for record in right.values())


def _varied(*folders: Iterable[Record]) -> dict[str, set[str]]:
    """Return the settings that vary within a folder, by scheme, measure, task, seed."""
    varied: dict[str, set[str]] = defaultdict(set)
    for records in folders:
        first: dict[str, Mapping[str, Json]] = {}
        for record in records:
            cell, setting = _same_scheme(record), record.spec.setting
            changes = _changes(first.setdefault(cell, setting), setting)
            varied[cell] |= {name for name, *_ in changes}
    return varied


def _same_scheme(record: Record) -> str:
    """Return the scheme, measure, task and seed of a record."""
    scheme = record.spec.scheme
    cell = [scheme.name, scheme.options], record.measure, record.task, record.spec.seed
    return canonical([*cell]).decode()


def result(record: Record) -> bytes:
    """Return the canonical text of what came out."""
    parts = {n: v for n, v in record.to_json().items() if n not in NO_RESULT}
    rows = [asdict(row) for row in record.repeatable_rows]
    return canonical({**parts, "rows": rows})


def difference(one: Record, other: Record) -> list[str]:
    """Return what differs between two records of a cell, in words; [] if nothing.

    Numbers are compared relative to the larger of the two.
    """
    specs = [_flat(record.spec.to_json()) for record in (one, other)]
    found = [f"{n}: {str(a)[:12]} and {str(b)[:12]}" for n, a, b in _changes(*specs)]
    if result(one) == result(other):
        return found
    if one.status != other.status:
        return [*found, f"status: {one.status} and {other.status}"]
    values = [
        (_relative(a, b), name)
        for name, a, b in _changes(_numbers(one), _numbers(other))
    ]
    if values:
        largest, name = max(values)
        found.append(f"{len(values)} numbers, by up to {largest:.1e} relative ({name})")
    first = [_first_loss(record) for record in (one, other)]
    if first[0] != first[1]:
        found.append(f"loss of the first step, by {_relative(*first):.1e} relative")
    return found or ["text or arrays"]


def _first_loss(record: Record) -> Json:
    losses = record.arrays.get("training_bits")
    return losses[0] if isinstance(losses, list) and losses else None


def _numbers(record: Record) -> dict[str, Json]:
    return {
        f"{row.quantity} {row.case} {row.x}": row.value
        for row in record.repeatable_rows
    }


def _flat(parts: Mapping[str, Json], above: str = "") -> dict[str, Json]:
    """Return the leaves of nested dicts by their names, joined with dots."""
    found: dict[str, Json] = {}
    for name, value in parts.items():
        inner = isinstance(value, dict)
        found |= _flat(value, f"{above}{name}.") if inner else {above + name: value}
    return found


def _changes(
    one: Mapping[str, Json], other: Mapping[str, Json]
) -> list[tuple[str, Json, Json]]:
    """Return the names under which two dicts differ, with both values or None."""
    names = {**one, **other}
    pairs = [(name, one.get(name), other.get(name)) for name in names]
    return [(name, a, b) for name, a, b in pairs if a != b]


def _relative(a: Json, b: Json) -> float:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0
