"""Read the records of a folder for tables, plots and reports.

A folder may come from anywhere: records without their shape are left out, and all text
is cleaned here, once.
"""

import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from posenc_compare.errors import ConfigError
from posenc_compare.records.labels import (
    CODE,
    CORPUS,
    Warn,
    label_settings,
    text_names,
    with_defaults,
)
from posenc_compare.records.record import Record
from posenc_compare.records.sanitize import SHORT, clean
from posenc_compare.records.selection import Selection, newest
from posenc_compare.records.store import Store
from posenc_compare.settings.canonical import Body, Scalar
from posenc_compare.validate import hint

REFERENCE = Path(__file__).parents[1] / "reference"
"""Records that come with the package: by preset, of several versions of its code."""

DOCUMENTS = ("document_bits", "window_documents")  # arrays by document, for tables


def load_records(
    folder: Path | Sequence[Path],
    warn: Warn = warnings.warn,
    *,
    arrays: bool = True,
    selection: Selection | None = None,
) -> list[Record]:
    """Return the sound records of folders, labelled where settings differ.

    Beside records that come with the package, labels leave out code and processor.

    Args:
        folder: of a run, or several; the same cell counts once.
        warn: called with a line for every record that is left out, one for the files
            that are damaged, and one if there is code or a processor of several kinds.
        arrays: keep the arrays that plots alone need, which take most of the memory.
        selection: of the records; without one, all of them.
    """
    folders = [folder] if isinstance(folder, Path) else folder
    records = _merge(folders, warn, arrays=arrays)
    if selection is not None:
        records = selection.of(records, warn)
    if not any(REFERENCE in one.resolve().parents for one in folders):
        return label_settings(records, warn)
    return label_settings(newest(records), warn, (*CODE, "cpu"))


def load_by(
    folders: Iterable[Path],
    names: Sequence[str],
    warn: Warn = warnings.warn,
    selection: Selection | None = None,
) -> dict[str, list[Record]]:
    """Return the sound records of trainings in folders, by the value of a setting.

    `names` are those of settings of a training; `corpus` is its text. Of several
    settings the values stand together.

    Returns:
        Records by value, numbers in order. Labels name all other settings that differ,
        in whatever group, so that a label stands for the same setting in each.
    """
    records = _merge(folders, warn, arrays=False)
    trained = [record for record in records if record.spec.kind == "training"]
    if selection is not None:
        trained = selection.of(trained, warn)
    known = {name for record in trained for name in record.spec.setting} - {"seed"}
    fields = [CORPUS if name == "corpus" else name for name in names]
    for name, field in zip(names, fields, strict=True):
        if field not in known:
            raise ConfigError(f"by {name!r}: must be a setting{hint(name, known)}")
    texts = text_names(trained)
    groups: dict[tuple[Scalar, ...], list[Record]] = defaultdict(list)
    for record in label_settings(trained, warn, fields):
        values = {**record.spec.setting}
        values[CORPUS] = texts[values.get(CORPUS, "")]
        groups[tuple(values.get(field, "") for field in fields)].append(record)
    if len(groups) < 2:
        values = ", ".join(map(_words, groups)) or "none"
        raise ConfigError(
            f"by {','.join(names)}: must have two values or more in the records of "
            f"trainings, got {values}"
        )
    order = sorted(
        groups, key=lambda value: [(isinstance(v, str), v != "none", v) for v in value]
    )
    return {_words(value): groups[value] for value in order}


def _merge(folders: Iterable[Path], warn: Warn, *, arrays: bool) -> list[Record]:
    """Return each cell of folders once; a result replaces a failure elsewhere.

    `warn` gets a line if folders have different results of a cell.
    """
    found: dict[str, Record] = {}
    differing: dict[str, str] = {}
    for folder in folders:
        for record in read_folder(folder, warn, arrays=arrays):
            known = found.setdefault(record.key, record)
            if record.status == known.status == "ok" and record.rows != known.rows:
                differing[record.key] = record.measured
            if record.status == "ok" or known.status in ("failed", "lost"):
                found[record.key] = record
    if differing:
        warn(
            f"cells with different results in several folders: {len(differing)}, of "
            f"{', '.join(sorted(set(differing.values())))}; the last folder is used"
        )
    return [*found.values()]


def _words(value: Iterable[Scalar]) -> str:
    return ", ".join(f"{v:.12g}" if isinstance(v, float) else str(v) for v in value)


def read_folder(folder: Path, warn: Warn, *, arrays: bool = True) -> list[Record]:
    """Return the sound records of a folder, with the labels of their schemes."""
    store = Store(folder)
    records = sound(store.records(), warn, arrays=arrays)
    if store.damaged:
        some = ", ".join(store.damaged[:3]) + ", ..." * (len(store.damaged) > 3)
        warn(
            f"{len(store.damaged)} records left out, which are damaged or of another "
            f"version: {some}; the same run computes them again"
        )
    if not records:
        if not folder.exists():
            raise ConfigError(
                f"{folder}: must hold records of a run; it does not exist"
            )
        inside = [
            p.parent for depth in ("*", "*/*") for p in folder.glob(f"{depth}/cells*")
        ]
        those = ", ".join(dict.fromkeys(map(str, sorted(inside)[:3])))
        raise ConfigError(
            f"{folder}: must hold records of a run (cells/*.json, or packed in "
            f"cells.jsonl.xz), and holds none{f'; try {those}' if those else ''}"
        )
    return records


def sound(
    bodies: Iterable[Body], warn: Warn = warnings.warn, *, arrays: bool = True
) -> list[Record]:
    """Return the records among what a store holds that have their shape, clean."""
    kept: list[Record] = []
    for body in bodies:
        numbers = body.get("arrays")
        if isinstance(numbers, dict):
            wanted = [name for name in numbers if arrays or name in DOCUMENTS]
            numbers = {clean(name, SHORT): numbers[name] for name in wanted}
        try:
            texts = clean({name: v for name, v in body.items() if name != "arrays"})
            kept.append(with_defaults(Record.from_json({**texts, "arrays": numbers})))
        except (ValueError, RecursionError) as error:
            key = clean(str(body.get("key")), 40)
            warn(clean(f"record {key}: left out: {error}", 200))
    return kept
