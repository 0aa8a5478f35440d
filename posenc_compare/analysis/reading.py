"""Read the records of a folder for tables and plots.

Numbers made under different settings never share a row: where a folder holds several,
the label of a record says in which settings it differs from the others.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

from posenc_compare.analysis.store import Store
from posenc_compare.errors import ConfigError

HASHES = ("source", "corpus_sha256")


def load_records(folder: Path) -> list[dict[str, Any]]:
    """Return the intact records of a folder, with labels that tell settings apart.

    Raises:
        ConfigError: if the folder holds no records.
    """
    records = list(Store(folder).records())
    if not records:
        raise ConfigError(
            f"{folder}: must hold records of a run (cells/*.json), and holds none"
        )
    return tell_apart(records)


def tell_apart(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records with differing settings appended to their labels.

    Settings are compared among the records of one measure; the source of a scheme
    among the records of one label.
    """
    values: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for record in records:
        for group, value in _settings(record).items():
            values[group].add(value)
    marked = []
    for record in records:
        differing = [
            f"{group[-1]}={value[:8] if group[-1] in HASHES else value}"
            for group, value in sorted(_settings(record).items())
            if len(values[group]) > 1
        ]
        label = record["label"]
        if differing:
            label = f"{label} [{', '.join(differing)}]"
        marked.append({**record, "label": label})
    return marked


def _settings(record: dict[str, Any]) -> dict[tuple[str, ...], str]:
    """Return what must agree, by the group in which it must and its name."""
    spec = record["spec"]
    measure = spec["measure"]["name"]
    settings = {
        **spec["setting"],
        "version": spec["measure"]["version"],
        "threads": spec["threads"],
        "package": spec["package"],
        "torch": spec["torch"],
    }
    del settings["seed"]
    return {
        **{(measure, name): str(value) for name, value in settings.items()},
        (measure, record["label"], "source"): spec["scheme"]["source_sha256"],
    }
