"""Give records of older runs the keys of today, once; numbers and rows stay.

    python tools/new_keys.py results/language/1500 results/tasks/six \
        --plugin my_scheme.py

A record of version 0.1.0 was keyed by a hash of thousands of lines. This tool computes
the key of the same cell by the rule of `own_code.py`. It is for records whose numbers
the code of today gives again, as `tests/pinned` showed for `results/`.
`--drop NAME` removes the records of a scheme.
"""

import sys
from dataclasses import replace
from pathlib import Path

import typer

from posenc_compare.analysis.core.canonical import spec_key
from posenc_compare.analysis.records.cells import cell_of
from posenc_compare.analysis.records.packed import packed
from posenc_compare.analysis.records.record import Record, SchemeSpec
from posenc_compare.analysis.records.store import Store, sealed
from posenc_compare.errors import ConfigError
from posenc_compare.registry import add_plugin

NOPE = SchemeSpec("nope", {}, "")


def renewed(body: dict) -> dict:
    """Return a record under the key of today.

    A scheme that is gone keeps the hash that it had.
    """
    old = Record.from_json(body).spec
    try:
        spec = cell_of(old, ("stdlib", "")).spec().to_json()
    except ConfigError as error:
        print(f"{body['label']}: {error}", file=sys.stderr)
        beside = cell_of(replace(old, scheme=NOPE), ("stdlib", "")).spec()
        spec = replace(beside, scheme=old.scheme).to_json()
    made = {"posenc_compare": "0.1.0", **body["provenance"]}
    return {**body, "spec": spec, "key": spec_key(spec), "provenance": made}


def main(folders: list[Path], drop: str = "", plugin: str = "") -> None:
    """Rewrite the packed records of folders."""
    if plugin:
        add_plugin(plugin)
    for folder in folders:
        store, texts = Store(folder), {}
        for body in store.records():
            if body["spec"]["scheme"]["name"] in drop.split(","):
                continue
            new = renewed(body) if "numbers" not in body["spec"] else body
            assert new["rows"] == body["rows"]
            assert new["arrays"] == body["arrays"]
            key = new.pop("key")
            texts[key] = sealed(new)
        store.packed.write_bytes(packed(texts))
        for path in store.cells.glob("*.json"):
            path.unlink()
        print(f"{folder}: {len(texts)} records")


if __name__ == "__main__":
    typer.run(main)
