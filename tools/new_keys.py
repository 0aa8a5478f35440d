"""Give records of older runs the keys of today, once; numbers and rows stay.

    python tools/new_keys.py results/survey results/tasks --plugin my_scheme.py

A record of version 0.1.0 was keyed by a hash of thousands of lines. This tool computes
the key of the same cell by the rule of `own_code.py`. It is for records whose numbers
the code of today gives again, as `tests/pinned` showed for `results/`. Records of
schemes that are gone keep their keys; `--drop NAME` removes those of a scheme.
"""

import sys
from pathlib import Path

import typer

from posenc_compare.analysis.core.canonical import spec_key
from posenc_compare.analysis.records.cells import cell_of
from posenc_compare.analysis.records.packed import packed
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.records.store import Store, sealed
from posenc_compare.errors import ConfigError
from posenc_compare.registry import add_plugin


def renewed(body: dict) -> dict | None:
    """Return a record under the key of today; None if its scheme is gone."""
    record = Record.from_json(body)
    try:
        spec = cell_of(record.spec, ("stdlib", "")).spec().to_json()
    except ConfigError as error:
        print(f"{record.label}: {error}", file=sys.stderr)
        return None
    made = {"posenc_compare": "0.1.0", **body["provenance"]}
    return {**body, "spec": spec, "key": spec_key(spec), "provenance": made}


def main(folders: list[Path], drop: str = "", plugin: str = "") -> None:
    """Rewrite the packed records of folders."""
    if plugin:
        add_plugin(plugin)
    for folder in folders:
        store, texts, kept = Store(folder), {}, 0
        for body in store.records():
            if body["spec"]["scheme"]["name"] in drop.split(","):
                continue
            new = renewed(body) if "numbers" not in body["spec"] else body
            if new is None:
                new, kept = body, kept + 1
            assert new["rows"] == body["rows"]
            assert new["arrays"] == body["arrays"]
            key = new.pop("key")
            texts[key] = sealed(new)
        store.packed.write_bytes(packed(texts))
        for path in store.cells.glob("*.json"):
            path.unlink()
        print(f"{folder}: {len(texts)} records, {kept} under their old keys")


if __name__ == "__main__":
    typer.run(main)
