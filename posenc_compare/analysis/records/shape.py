"""The shape of a record: what every reader relies on, and no writer may leave out."""

import sys
from collections.abc import Iterable
from typing import Any

STATUSES = ("ok", "failed", "lost", "unsupported")
MANY = 10_000  # rows, quantities and facts that a record may have
COUNTED = ("seconds", "attempts", "resumed_from_step", "peak_memory_bytes")
ABSENT = object()
SETTING = {"kind": str, "seed": int}


def fault(record: Any) -> str:
    """Return what is wrong with a record, or the empty string."""
    if wrong := misfit(record, RECORD):
        return f"{wrong} is missing or not what it must be"
    unknown = {row["quantity"] for row in record["rows"]} - set(record["quantities"])
    return f"rows of a quantity without facts: {min(unknown)}" if unknown else ""


def misfit(value: Any, shape: Any, where: str = "record") -> str:
    """Return where a value does not fit its shape, or the empty string.

    A shape is a type, a test, a dict of fields that must be there, a dict from `str`
    to the shape of each value, or a list of the shape of each item.
    """
    parts: Iterable[tuple[Any, Any, str]] = ()
    match shape, value:
        case dict() | list(), dict() | list() if len(value) > MANY:
            return where
        case [each], list():
            parts = ((item, each, str(i)) for i, item in enumerate(value))
        case dict(), dict():
            inner = dict.fromkeys(value, shape[str]) if str in shape else shape
            parts = ((value.get(name, ABSENT), inner[name], name) for name in inner)
        case dict() | list(), _:
            return where
        case type(), _ if type(value) is not shape:
            return where
        case _ if not isinstance(shape, type) and not shape(value):
            return where
    found = (misfit(item, inner, f"{where}.{name}") for item, inner, name in parts)
    return next(filter(None, found), "")


def _number(value: Any) -> bool:
    known = type(value) in (int, float) and abs(value) <= sys.float_info.max
    return value is None or known


def _array(value: Any) -> bool:
    return all(map(_array, value)) if isinstance(value, list) else _number(value)


def _scalar(value: Any) -> bool:
    return isinstance(value, str | bool) or _number(value)


def _headline(value: Any) -> bool:
    if isinstance(value, list) and len(value) == 2:
        return isinstance(value[0], str) and _number(value[1])
    return value is None or value in ("curve", "cases")


def _flat(value: Any) -> bool:
    return value is None or not misfit(value, {str: _scalar})


def _provenance(value: Any) -> bool:
    if value is None or not isinstance(value, dict):
        return value is None
    counts = [value[name] for name in COUNTED if name in value]
    return _flat(value) and all(type(count) in (int, float) for count in counts)


def _text_or_absent(value: Any) -> bool:
    return value is ABSENT or type(value) is str


RECORD: dict[str, Any] = {
    "key": str,
    "status": lambda value: value in STATUSES,
    "error": str,
    "trace": lambda value: value is ABSENT or not misfit(value, [str]),
    "label": str,
    "family": str,
    "source": str,
    "spec": {
        "scheme": {"name": str, "options": {str: _scalar}, "source_sha256": str},
        # Records of earlier versions lack the hash of the measure's code.
        "measure": {"name": str, "version": int, "source_sha256": _text_or_absent},
        "setting": lambda value: not misfit(value, SETTING) and _flat(value),
        "threads": int,
        "package": str,
        "torch": str,
        "graphics": _text_or_absent,
    },
    "quantities": {
        str: {
            "unit": str,
            "better": lambda value: value in ("lower", "higher", "neither"),
            "zero": str,
            "x": str,
            "headline": _headline,
            "title": str,
            "repeatable": lambda value: value is ABSENT or type(value) is bool,
        }
    },
    "rows": [
        {"quantity": str, "value": _number, "x": _number, "case": str, "note": str}
    ],
    "arrays": {str: _array},
    "corpus": _flat,
    "provenance": _provenance,
}
