"""Read the records of a folder for tables, plots and reports.

A folder may be a stranger's: records that do not have their shape are left out, and
all text is cleaned here, once. Numbers made under different settings never share a
row: where a folder holds several, the label of a record says in which settings it
differs from the others.
"""

import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.records.shape import fault
from posenc_compare.analysis.records.store import Store
from posenc_compare.errors import ConfigError

Record = dict[str, Any]
Warn = Callable[[str], Any]

HASHES = ("source", "corpus_sha256")
# Facts of where a record was made that change its numbers: by the name of a setting,
# where the fact stands, and what it is for records of before it was kept.
MADE = {
    "cpu": ("arithmetic", "unknown"),
    "build": ("torch", "unknown"),
    "matmul": ("float32_matmul_precision", "highest"),
}
TOLD = {
    "source": "several versions of a scheme",
    "code": "several versions of the code",
    "package": "several versions of this package",
    "cpu": "processors that calculate differently",
}
HELD = 1 << 26  # numbers in the arrays of all records of a folder


def load_records(
    folder: Path, warn: Warn = warnings.warn, *, arrays: bool = True
) -> list[Record]:
    """Return the sound records of a folder, with labels that tell settings apart.

    Args:
        folder: of a run.
        warn: called with a line for every record that is left out, one for the files
            that are damaged, and one if there is code or a processor of several kinds.
        arrays: keep the arrays, which plots need and which take most of the memory.

    Raises:
        ConfigError: if the folder holds no records.
    """
    store = Store(folder)
    records = sound(store.records(), warn, arrays=arrays)
    if store.damaged:
        some = ", ".join(clean(name, 40) for name in store.damaged[:3])
        warn(
            f"{len(store.damaged)} damaged records left out: {some}"
            f"{', ...' * (len(store.damaged) > 3)}; the same run computes them again"
        )
    if not records:
        raise ConfigError(
            f"{folder}: must hold records of a run (cells/*.json, or packed in "
            f"cells.jsonl.xz), and holds none"
        )
    return tell_apart(records, warn)


def sound(
    records: Iterable[Record], warn: Warn = warnings.warn, *, arrays: bool = True
) -> list[Record]:
    """Return the records that have their shape, with clean text.

    Those whose arrays no longer fit in memory lose them, and a line says so.
    """
    kept, held = [], 0
    for record in records:
        key = clean(str(record.get("key")), 40)
        try:
            problem = fault(record)
            held += _count(record["arrays"]) if arrays and not problem else 0
        except RecursionError as error:
            problem = str(error)
        if problem:
            warn(clean(f"record {key}: left out: {problem}", 200))
            continue
        if arrays and record["arrays"] and held > HELD:
            warn(f"record {key}: its arrays are left out; those of the others fill up")
        if not arrays or held > HELD:
            record = {**record, "arrays": {}}
        kept.append(clean(record))
    return kept


def _count(value: Any) -> int:
    """Return how many items a value of JSON has, without end."""
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_count, value)) + len(value) if isinstance(value, list) else 1


def tell_apart(records: list[Record], warn: Warn = warnings.warn) -> list[Record]:
    """Return the records with differing settings appended to their labels.

    Settings are compared among all records of one kind of setting; the version and the
    code of a measure among its records; a scheme among those of one label.
    """
    ages = _ages(records)
    settings = [_settings(r, age) for r, age in zip(records, ages, strict=True)]
    values: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for known in settings:
        for group, value in known.items():
            values[group].add(value)
    marked = []
    for record, known in zip(records, settings, strict=True):
        differing = sorted(
            f"{group[-1]}={value[:8] if group[-1] in HASHES else clean(value, 40)}"
            for group, value in known.items()
            if len(values[group]) > 1
        )
        label = record["label"]
        if differing:
            label = f"{label} [{', '.join(differing)}]"
        marked.append({**record, "label": label})
    for name, what in TOLD.items():
        if any(len(found) > 1 for group, found in values.items() if group[-1] == name):
            warn(f"records of {what}: labels tell them apart by [{name}=...]")
    other = [r for r in records if _made(r).get("resumed_elsewhere")]
    if other:
        warn(
            f"{len(other)} records went on from checkpoints that another run had left, "
            f"as after Ctrl-C: they are worth as much as the folder those lay in"
        )
    return marked


def _ages(records: list[Record]) -> list[str]:
    """Return for each record the age of its measure's code, as `2 of 2`.

    The newest code is that of the record which was begun last.
    """
    begun: dict[str, dict[str, str]] = defaultdict(dict)
    for record in records:
        codes = begun[record["spec"]["measure"]["name"]]
        code, when = _code(record), str(_made(record).get("started", ""))
        codes[code] = max(when, codes.get(code, ""))
    ages = []
    for record in records:
        codes = begun[record["spec"]["measure"]["name"]]
        order = sorted(codes, key=lambda code: (codes[code], code))
        ages.append(f"{order.index(_code(record)) + 1} of {len(order)}")
    return ages


def _made(record: Record) -> dict[str, Any]:
    """Return where a record was made, as far as it says."""
    return record["provenance"] or {}


def _code(record: Record) -> str:
    """Return the hash of the code of a record's measure; of an old record, none."""
    return record["spec"]["measure"].get("source_sha256", "")


def kind_of(record: Record) -> str:
    """Return the kind of a record's setting."""
    return record["spec"]["setting"]["kind"]


def _settings(record: Record, age: str) -> dict[tuple[Any, ...], str]:
    """Return what must agree, by the group in which it must and its name."""
    spec, made = record["spec"], _made(record)
    kind = kind_of(record)
    settings = {
        **spec["setting"],
        "threads": spec["threads"],
        "package": spec["package"],
        "torch": spec["torch"],
        "graphics": spec.get("graphics", ""),
        # What has no numbers was made nowhere.
        **{
            name: str(made.get(field, before))
            for name, (field, before) in MADE.items()
            if record["rows"] or field in made
        },
    }
    del settings["seed"]
    if settings.get("grid"):  # says as much as these
        settings |= {"positions": "", "tokens": ""}
    scheme = [spec["scheme"]["name"], record["family"], spec["scheme"]["options"]]
    return {
        **{(kind, name): str(value) for name, value in settings.items()},
        (spec["measure"]["name"], "version"): str(spec["measure"]["version"]),
        (spec["measure"]["name"], "code"): age,
        (record["label"], "scheme"): json.dumps(scheme, sort_keys=True),
        (record["label"], "source"): spec["scheme"]["source_sha256"],
    }
