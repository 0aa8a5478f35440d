"""Read the records of a folder for tables, plots and reports.

A folder may be a stranger's: records that do not have their shape are left out, and
all text is cleaned here, once. Numbers made under different settings never share a
row: where a folder holds several, the label of a record says in which settings it
differs from the others of its task.
"""

import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import MISSING, fields, replace
from functools import cache
from pathlib import Path

from posenc_compare.analysis.core.canonical import Scalar
from posenc_compare.analysis.core.quantities import Array
from posenc_compare.analysis.core.sanitize import SHORT, clean
from posenc_compare.analysis.records.record import Facts, Record
from posenc_compare.analysis.records.selection import Selection
from posenc_compare.analysis.records.store import Store
from posenc_compare.errors import ConfigError
from posenc_compare.registry import SETTINGS
from posenc_compare.validate import hint

Warn = Callable[[str], object]

IN_WORDS = str.maketrans(",[]", ";()")  # a label is split at commas and brackets
HASHED = {"corpus": "corpus_sha256"}  # the setting behind a name that readers use
# Facts of where a record was made that change its numbers: by the name of a setting,
# where the fact stands, and what it is for records of before it was kept.
MADE = {
    "build": ("torch", "unknown"),
    "matmul": ("float32_matmul_precision", "highest"),
}
# Settings of older records alone, by kind.
GONE: dict[str, Facts] = {"training": {"captured": False}}
CPU = ("arithmetic", "unknown")
TOLD = {
    "scheme_code": "several versions of a scheme",
    "measure_code": "several versions of a measure",
    "numbers": "several versions of the code that schemes share",
    "modified": "packages that were edited",
}
HASHES = ("scheme_code", "measure_code", "modified")  # a label shows how they begin
DOCUMENTS = ("document_bits", "window_documents")  # by document
TABLED = (*DOCUMENTS, "training_bits")  # arrays that tables need too
HELD = 1 << 26  # numbers in the arrays of all records of a folder


def load_records(
    folder: Path | Sequence[Path],
    warn: Warn = warnings.warn,
    *,
    arrays: bool = True,
    selection: Selection | None = None,
) -> list[Record]:
    """Return the sound records of folders, with labels that tell settings apart.

    Args:
        folder: of a run, or several; the same cell counts once.
        warn: called with a line for every record that is left out, one for the files
            that are damaged, and one if there is code or a processor of several kinds.
        arrays: keep the arrays that plots alone need, which take most of the memory.
        selection: of the records; without one, all of them.

    Raises:
        ConfigError: if a folder holds no records, or the selection stands for none.
    """
    folders = [folder] if isinstance(folder, Path) else folder
    found = [
        record for one in folders for record in read_records(one, warn, arrays=arrays)
    ]
    records = [*{record.key: record for record in found}.values()]
    if selection is not None:
        records = selection.of(records, warn)
    return tell_apart(records, warn)


def load_by(
    folders: Iterable[Path],
    names: Sequence[str],
    warn: Warn = warnings.warn,
    selection: Selection | None = None,
) -> dict[str, list[Record]]:
    """Return the sound records of trainings in folders, by the value of a setting.

    Args:
        folders: of runs.
        names: of the settings of a training; `corpus` is its text. Of several settings
            the values stand together.
        warn: as in `load_records`.
        selection: of the records; without one, all of them.

    Returns:
        Records by value, numbers in order. Labels tell all other settings apart, in
        whatever group they differ, so that a label stands for the same setting in each.

    Raises:
        ConfigError: if a folder holds no records, a setting is not one of a training or
            has one value in all of them.
    """
    trained = [
        record
        for folder in folders
        for record in read_records(folder, warn, arrays=False)
        if record.spec.kind == "training"
    ]
    if selection is not None:
        trained = selection.of(trained, warn)
    known = {name for record in trained for name in record.spec.setting} - {"seed"}
    for name in names:
        if HASHED.get(name, name) not in known:
            raise ConfigError(f"by {name!r}: must be a setting{hint(name, known)}")
    texts = _texts(trained)
    groups: dict[tuple[Scalar, ...], list[Record]] = defaultdict(list)
    for record in tell_apart(trained, warn, {HASHED.get(n, n) for n in names}):
        groups[tuple(_value(record, name, texts) for name in names)].append(record)
    if len(groups) < 2:
        found = ", ".join(map(_words, groups)) or "none"
        raise ConfigError(
            f"by {','.join(names)}: must have two values or more in the records of "
            f"trainings, got {found}"
        )
    order = sorted(
        groups, key=lambda value: [(isinstance(v, str), v != "none", v) for v in value]
    )
    return {_words(value): groups[value] for value in order}


def _text(record: Record) -> str:
    """Return the name of the text that a record is of."""
    return str(record.corpus.get("name", ""))


def _texts(records: list[Record]) -> dict[Scalar, str]:
    """Return what each text is called, by its hash; of a shared name with digits."""
    names: dict[Scalar, str] = {}
    for record in records:
        names.setdefault(record.spec.setting.get("corpus_sha256", ""), _text(record))
    shared = Counter(names.values())
    return {
        sha256: f"{name} {str(sha256)[:8]}".strip() if shared[name] > 1 else name
        for sha256, name in names.items()
    }


def _value(record: Record, name: str, texts: dict[Scalar, str]) -> Scalar:
    """Return the value of a setting; of a text, what it is called."""
    if name in HASHED:
        return texts[record.spec.setting.get(HASHED[name], "")]
    spec = record.spec
    return spec.setting.get(name, _defaults(spec.kind).get(name, ""))


@cache
def _defaults(kind: str) -> Facts:
    """Return the defaults of settings, which older records lack."""
    known = fields(SETTINGS.get(kind))
    found = {f.name: f.default for f in known if f.compare}
    return {n: v for n, v in found.items() if v is not MISSING} | GONE.get(kind, {})


def _words(value: Iterable[Scalar]) -> str:
    return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in value)


def read_records(folder: Path, warn: Warn, *, arrays: bool) -> list[Record]:
    """Return the sound records of a folder, with the labels that they were given.

    Args:
        folder: of a run.
        warn: called with a line for every record that is left out, and one for the
            files that are damaged.
        arrays: keep the arrays that plots alone need.

    Raises:
        ConfigError: if it holds no records.
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
    return records


def sound(
    bodies: Iterable[object], warn: Warn = warnings.warn, *, arrays: bool = True
) -> list[Record]:
    """Return the records among what a store holds that have their shape, clean.

    Those whose arrays no longer fit in memory lose them, and a line says so.
    """
    kept: list[Record] = []
    held = 0
    for body in bodies:
        try:
            record = Record.from_json(body)
        except ValueError as error:
            key = body.get("key") if isinstance(body, dict) else None
            key = clean(str(key), 40)
            warn(clean(f"record {key}: left out: {error}", 200))
            continue
        wanted = {n: a for n, a in record.arrays.items() if arrays or n in TABLED}
        held += sum(map(_count, wanted.values()))
        if wanted and held > HELD:
            key = clean(record.key, 40)
            warn(f"record {key}: its arrays are left out; those of the others fill up")
        kept.append(_cleaned(record, wanted if held <= HELD else {}))
    return kept


def _cleaned(record: Record, arrays: dict[str, Array]) -> Record:
    """Return a record whose texts are clean, with these of its arrays."""
    numbers = {clean(name, SHORT): array for name, array in arrays.items()}
    texts = replace(record, arrays={}).to_json()
    found = Record.from_json(clean({**texts, "key": record.key}))
    return replace(found, arrays=numbers)


def _count(array: Array) -> int:
    """Return how many items nested lists have, without end."""
    return sum(map(_count, array)) + len(array) if isinstance(array, list) else 1


def tell_apart(
    records: list[Record],
    warn: Warn = warnings.warn,
    but: Collection[str] = (),
) -> list[Record]:
    """Return the records with differing settings appended to their labels.

    Settings are compared among all records of one kind of setting and one task, which
    no label says; the version and the code of a measure among its records; the code of
    a scheme among those of one label; the processor among the seeds of one mean, and
    among all records of a measure of times.

    Args:
        records: to be told apart.
        warn: called with a line for each kind of code or processor that differs.
        but: names of settings that may differ unsaid.
    """
    settings = [
        {group: v for group, v in _settings(r).items() if group[-1] not in but}
        for r in records
    ]
    values: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for known in settings:
        for group, value in known.items():
            values[group].add(value)
    marked, texts = [], _texts(records)
    for record, known in zip(records, settings, strict=True):
        differing = sorted(
            _said(record, group[-1], value, texts)
            for group, value in known.items()
            if len(values[group]) > 1 and value
        )
        label = record.label
        if differing:
            label = f"{label} [{', '.join(differing)}]"
        marked.append(replace(record, label=label, settings=tuple(differing)))
    for name, what in TOLD.items():
        if any(len(found) > 1 for group, found in values.items() if group[-1] == name):
            warn(f"records of {what}: labels tell them apart by [{name}=...]")
    if processors := _processors(records):
        warn(f"records of processors that calculate differently: {processors}")
    other = [r for r in records if r.provenance.facts.get("resumed_elsewhere")]
    if other:
        warn(
            f"{len(other)} records went on from checkpoints that another run had left, "
            f"as after Ctrl-C: they are worth as much as the folder those lay in"
        )
    return marked


def _said(record: Record, name: str, value: str, texts: dict[Scalar, str]) -> str:
    """Return what a label says of a setting; of a text its name."""
    if name == HASHED["corpus"]:
        text = clean(str(_value(record, "corpus", texts)), SHORT) or value[:8]
        return f"corpus={text.translate(IN_WORDS)}"
    return f"{name}={value[:8] if name in HASHES else clean(value, 40)}"


def _cpu(record: Record) -> str:
    """Return how the processor that made a record calculates."""
    return record.provenance.text(*CPU) if record.rows else ""


def _processors(records: list[Record]) -> str:
    """Return which schemes are of which processors, if there are several."""
    made: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if cpu := _cpu(record):
            made[cpu].add(record.label)
    listed = []
    for cpu, labels in sorted(made.items()):
        more = f" and {len(labels) - 5} more" * (len(labels) > 5)
        listed.append(f"{clean(cpu, 40)} made {', '.join(sorted(labels)[:5])}{more}")
    return "; ".join(listed) if len(listed) > 1 else ""


def _settings(record: Record) -> dict[tuple[str, ...], str]:
    """Return what must agree, by the group in which it must and its name."""
    spec, made = record.spec, record.provenance
    settings: Facts = {
        **_defaults(spec.kind),
        **spec.setting,
        "threads": spec.threads,
        "numbers": spec.numbers,
        "modified": spec.modified,
        "torch": spec.torch,
        "graphics": spec.graphics,
        # A record without rows ranks nothing, wherever it was made.
        **{
            name: made.text(field, before)
            for name, (field, before) in MADE.items()
            if record.rows
        },
    }
    del settings["seed"]
    settings.pop("task", None)
    if settings.get("grid"):  # says as much as these
        settings |= {"positions": "", "tokens": ""}
    scheme = [spec.scheme.name, record.family, spec.scheme.options]
    found = {
        **{(record.task, spec.kind, name): str(v) for name, v in settings.items()},
        (record.measure, "version"): str(spec.measure.version),
        (record.measured, "measure_code"): spec.measure.code,
        (record.label, "scheme"): json.dumps(scheme, sort_keys=True),
        (record.label, "scheme_code"): spec.scheme.code,
    }
    if cpu := _cpu(record):
        # Scores of schemes may come from two processors, but not the seeds of a mean,
        # nor times.
        timed = len(record.repeatable_rows) < len(record.rows)
        mean = () if timed else (record.label, json.dumps(settings, sort_keys=True))
        found[record.measured, *mean, "cpu"] = cpu
    return found
