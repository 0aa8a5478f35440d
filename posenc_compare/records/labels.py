"""Label records with the settings in which they differ.

Numbers made under different settings never share a row of a table: where some were, the
label of a record names the settings in which it differs from the others of its task.
"""

import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import MISSING, fields, replace

from posenc_compare.records.record import Facts, Record
from posenc_compare.records.sanitize import SHORT, clean
from posenc_compare.registry import SETTINGS
from posenc_compare.settings.canonical import Scalar

Warn = Callable[[str], object]

CORPUS = "corpus_sha256"  # a setting that labels show by the name of the text
IN_WORDS = str.maketrans(",[]", ";()")  # a label is split at commas and brackets
CODE = {
    "scheme_code": "several versions of a scheme",
    "measure_code": "several versions of a measure",
    "numbers": "several versions of the code that schemes share",
    "modified": "packages that were edited",
}
MACHINE = ("build", "matmul", "cpu")  # by which a cell without rows splits no others
HASHES = ("scheme_code", "measure_code", "modified")  # a label shows how they begin


def label_settings(
    records: list[Record],
    warn: Warn = warnings.warn,
    but: Collection[str] = (),
) -> list[Record]:
    """Return the records with differing settings appended to their labels.

    Settings are compared among all records of one kind of setting and one task, which
    no label says; the version and the code of a measure among its records; the code of
    a scheme among those whose options differ in numbers alone; the processor among the
    seeds of one mean, and among all records of a measure of times.

    `warn` is called with a line for each kind of code or processor that differs. `but`
    names settings that labels leave out.
    """
    settings = [_settings(record) for record in records]
    values: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for record, known in zip(records, settings, strict=True):
        for group, value in known.items():
            if record.rows or group[-1] not in MACHINE:
                values[group].add(value)
    several = {group for group, found in values.items() if len(found) > 1}
    labelled, texts = [], text_names(records)
    for record, known in zip(records, settings, strict=True):
        differing = sorted(
            {
                _in_label(record, group[-1], value, texts)
                for group, value in known.items()
                if group in several and group[-1] not in but and value
            }
        )
        label = record.label
        if differing:
            label = f"{label} [{', '.join(differing)}]"
        labelled.append(replace(record, label=label, settings=tuple(differing)))
    for name, what in CODE.items():
        if name in {group[-1] for group in several}:
            how = "do not show which" if name in but else f"name each by [{name}=...]"
            warn(f"records of {what}: labels {how}")
    if processors := _processors(records):
        warn(f"records of processors that calculate differently: {processors}")
    return labelled


def without_settings(record: Record) -> Record:
    """Return a record with the label of its scheme alone."""
    bare = record.label.removesuffix(f" [{', '.join(record.settings)}]")
    return replace(record, label=bare, settings=())


def text_names(records: Iterable[Record]) -> dict[Scalar, str]:
    """Return the name of each text by its hash; a shared name with some digits."""
    names: dict[Scalar, str] = {}
    for record in records:
        name = clean(str(record.corpus.get("name", "")), SHORT).translate(IN_WORDS)
        names.setdefault(record.spec.setting.get(CORPUS, ""), name)
    shared = Counter(names.values())
    return {
        sha256: f"{name} {str(sha256)[:8]}".strip() if shared[name] > 1 else name
        for sha256, name in names.items()
    }


def _in_label(record: Record, name: str, value: str, texts: dict[Scalar, str]) -> str:
    """Return a setting as a label shows it: a text by its name, a hash in short."""
    if name == CORPUS:
        return f"corpus={texts[record.spec.setting[CORPUS]] or value[:8]}"
    return f"{name}={value[:8] if name in HASHES else clean(value, 40)}"


def _processors(records: list[Record]) -> str:
    """Return which schemes are of which processors, if there are several."""
    made: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if record.rows and (cpu := record.made("arithmetic")):
            made[cpu].add(record.label)
    listed = []
    for cpu, labels in sorted(made.items()):
        more = f" and {len(labels) - 5} more" * (len(labels) > 5)
        listed.append(f"{clean(cpu, 40)} made {', '.join(sorted(labels)[:5])}{more}")
    return "; ".join(listed) if len(listed) > 1 else ""


def with_defaults(record: Record) -> Record:
    """Return a record with the settings that were added after it was made."""
    spec, kind = record.spec, SETTINGS.get(record.spec.kind)
    known = [one for one in fields(kind) if one.name not in kind.placed]
    defaults = {one.name: one.default for one in known if one.default is not MISSING}
    return replace(record, spec=replace(spec, setting={**defaults, **spec.setting}))


def _settings(record: Record) -> dict[tuple[str, ...], str]:
    """Return the settings of a record by the group that must agree, and their name."""
    spec = record.spec
    settings: Facts = {
        "grid": "",  # a probe of a sequence leaves it out
        **spec.setting,
        "threads": spec.threads,
        "numbers": spec.numbers,
        "modified": spec.modified,
        "torch": spec.torch,
        "graphics": spec.graphics,
        "build": record.made("torch"),
        "matmul": record.made("float32_matmul_precision"),
    }
    del settings["seed"]
    settings.pop("task", None)
    settings.pop("read_length", None)  # the x of all its rows
    if settings["grid"]:  # says as much as these
        settings |= {"positions": "", "tokens": ""}
    scheme = [spec.scheme.name, record.family, spec.scheme.options]
    words = {k: v for k, v in spec.scheme.options.items() if isinstance(v, str)}
    alike = json.dumps([spec.scheme.name, words], sort_keys=True)
    found = {
        **{(record.task, spec.kind, name): str(v) for name, v in settings.items()},
        (record.measure, "version"): str(spec.measure.version),
        (record.measured, "measure_code"): spec.measure.code,
        (record.label, "scheme"): json.dumps(scheme, sort_keys=True),
        (alike, "scheme_code"): spec.scheme.code,
    }
    if cpu := record.made("arithmetic"):
        # Scores of schemes may come from two processors, but not the seeds of a mean,
        # nor times. Without rows, a record goes with either.
        mean = record.label, json.dumps(settings, sort_keys=True)
        timed = len(record.repeatable_rows) < len(record.rows)
        if timed or not record.rows:
            found[record.measured, "cpu"] = cpu
        if not timed:
            found[record.measured, *mean, "cpu"] = cpu
    return found
