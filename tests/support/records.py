"""Records made by hand, for tests of what is shown."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posenc_compare.records.labels import label_settings
from posenc_compare.records.load import sound
from posenc_compare.records.record import Record
from posenc_compare.records.store import Store
from posenc_compare.settings.canonical import Body

# What untrusted records may hold where a name or a message stands.
HOSTILE = [
    "../x",
    "/etc/x",
    "a/b",
    "C:\\x",
    "nul\0byte",
    ".",
    "",
    "CON",
    "x" * 300,
    "x" * 299 + "y",
    "y" * 10_000,
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "' onmouseover=alert(1) x='",
    "</td></table><a href=http://example.org>",
    "<!-- ",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;",
    "=1+1",
    "  @SUM(A1)",
    "\t-1",
    "\r\n+1",
    "'quoted",
    "a|b",
    "a\\|b",
    "`code`",
    "[text](http://example.org)",
    "\\input{secret}",
    "[2cm]",
    "*",
    "$\\frac{",
    "a$b$",
    "50% & #1_2^3~{}",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "\x9b31m",
    "\u202enoitisop\u2066",
    "two\nlines\u2028three",
    "\u200b\ufeff",
    "\ud800",
    "_hidden",
    "\u4e2d\u6587 \U0001f600",
]
PORTRAIT = {
    "code": [[0.0, 1.0], [1.0, None]],
    "bias_map": [[[0, None], [-1, 0]]],
    "angles": [[0.0, 0.0], [1.0, 0.1]],
}

SPREAD = (-0.02, -0.01, 0.0, 0.0, 0.01, 0.02)  # half width of the mean: 0.0148


def fact(headline: Any = None, **changes: str) -> dict[str, Any]:
    """Return the facts of a quantity."""
    facts = {"name": "gain", "unit": "logit", "better": "lower", "zero": "nothing"}
    return {**facts, "x": "", "title": "", "headline": headline, **changes}


def row(value: float | None, **changes: Any) -> dict[str, Any]:
    """Return a row of the quantity `gain`."""
    found = {"quantity": "gain", "value": value, "x": None, "case": "", "note": ""}
    return {**found, **changes}


def record(
    label: str = "rope",
    measure: str = "shift_error",
    *,
    seed: int = 0,
    status: str = "ok",
    error: str = "boom",
    value: float | None = 1.5,
    **spec: Any,
) -> dict[str, Any]:
    """Return a whole record; `spec` changes parts of its specification or setting."""
    outer = {"threads": 1, "numbers": 1, "torch": "2.13", "version": 1}
    outer = {name: spec.pop(name, default) for name, default in outer.items()}
    outer |= {"modified": spec.pop("modified", "")}
    version = outer.pop("version")
    kind = "training" if "corpus_sha256" in spec else "probe"
    setting = {"kind": kind, "device": "cpu", "dtype": "float64", "width": 32}
    setting |= {"seed": seed, **spec}
    fine = status == "ok"
    identity = repr((label, measure, setting, version, outer)).encode()
    return {
        "schema": 3,
        "key": hashlib.sha256(identity).hexdigest()[:32],
        "spec": {
            "scheme": {"name": label, "options": {}, "code": "0" * 64},
            "measure": {"name": measure, "version": version, "code": "1" * 64},
            "setting": setting,
            **outer,
        },
        "status": status,
        "error": "" if fine else error,
        "trace": [],
        "label": label,
        "family": "rotary",
        "source": "arXiv:2104.09864",
        "quantities": {"gain": fact(["", None])},
        "rows": [row(value)] if fine else [],
        "arrays": {},
        "corpus": None,
        "provenance": {"started": f"2026-01-0{seed % 9 + 1}", "python": "3.11.7"},
    }


def read(body: dict[str, Any]) -> Record:
    """Return what is read of a record."""
    return Record.from_json(body)


def labelled(
    records: list[dict[str, Any]],
    say: Callable[[str], object] = print,
    *,
    arrays: bool = True,
) -> list[Record]:
    """Return what is shown of records: sound ones, whose labels name what differs."""
    return label_settings(sound(records, arrays=arrays), say)


def stored(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Write records to a folder, as those of a run, and return it."""
    store = Store(folder)
    store.create()
    for one in records:
        body: Body = {name: value for name, value in one.items() if name != "key"}
        store.write(body)
    return folder


def curve(
    label: str, values: list[float], *, quantity: str = "gain", **changes: Any
) -> dict[str, Any]:
    """Return a trained record with a number at every length 8, 16, 32 ..."""
    changes = {"corpus_sha256": "1", **changes}
    made = record(label, "extrapolation", length=8, **changes)
    facts = fact("curve", name=quantity, x="test length", title="bits")
    made["quantities"] = {quantity: facts}
    made["rows"] = [
        row(value, quantity=quantity, x=8 << i) for i, value in enumerate(values)
    ]
    return made


def windowed(label: str, scores: Any, owners: list[int]) -> list[dict[str, Any]]:
    """Return curves of `scores` (seed, length, window), windows of some documents."""
    found = []
    for seed, windows in enumerate(scores):
        one = curve(label, windows.mean(1).tolist(), seed=seed)
        one["arrays"] = {
            "document_bits": windows.tolist(),
            "window_documents": owners,
            "position_bits": [1.0],
        }
        found.append(one)
    return found


def hostile(text: str, seed: int = 0, *, curve: bool = False) -> dict[str, Any]:
    """Return a record with that text wherever a text can stand."""
    made = record(text, text, seed=seed, status="ok", device=text, dtype=text)
    made["spec"] |= {"modified": text, "torch": text}
    made["spec"]["scheme"] |= {"options": {text: text}, "code": text}
    made |= {"family": text, "source": text, "error": text, "trace": [text]}
    made["quantities"] = {
        text: fact("curve" if curve else [text, None], unit=text, zero=text, x=text)
    }
    made["quantities"][text] |= {"name": text, "title": text}
    point = 1.0 if curve else None
    made["rows"] = [row(1.0, quantity=text, case=text, note=text, x=point)]
    made["corpus"] = made["provenance"] = {text: text}
    return made


def trained(label: str, first: float, last: float | None) -> list[dict[str, Any]]:
    """Return six seeds whose change is `last - first`, with a spread around it."""
    found = []
    for seed, spread in enumerate(SPREAD):
        points = [first, (last or 0) + spread]
        chosen = {"quantity": "bits_per_byte", "task": "language"}
        one = curve(label, points, seed=seed, **chosen)
        one["quantities"]["bits_per_byte"] |= {"title": "", "x": ""}
        if last is None:
            one["rows"][1]["value"] = None
        found.append(one)
    return found
