"""Canonical JSON: equal values have equal text, in records and answers."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

Scalar = None | bool | int | float | str
Json = Scalar | Sequence["Json"] | Mapping[str, "Json"]
"""A value that JSON can hold."""
Body = dict[str, Any]
"""An object that came from JSON, or goes there: its fields have any type until read."""


def canonical(value: Json) -> bytes:
    """Return the canonical JSON text of a value: sorted, compact, without NaN."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True
    )
    return text.encode()


def spec_key(spec: Mapping[str, Json]) -> str:
    """Return the hash of a specification; the order of its fields has no effect."""
    return hashlib.sha256(canonical(spec)).hexdigest()[:32]


def parse_strictly(data: bytes) -> Any:
    """Return the value of a JSON text without NaN or infinity."""
    return json.loads(data, parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a finite number")
