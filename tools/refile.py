"""File records under the keys of the present code, if that gives the same numbers.

    python tools/refile.py results/quick results/standard --sample 40 --trained 6

A record's key holds a hash of the code that its numbers depend on. So every change of
that code gives new keys, also one that changes no number. This script draws records at
random from all folders and computes each again with the present code. If every byte of
every result agrees, it files all records under their new keys, and each says so.

Where a result differs and another processor made the record, the code that made it,
taken from its commit, is run on this machine too, and the two results must agree.
"""

import json
import random
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_compare.analysis.core.canonical import canonical
from posenc_compare.analysis.engine.local import Pool
from posenc_compare.analysis.engine.plan import here
from posenc_compare.analysis.engine.scheduler import Scheduler
from posenc_compare.analysis.engine.workers import Limits
from posenc_compare.analysis.records.cells import Cell, cell_of
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.records.store import Store
from posenc_compare.errors import ConfigError
from posenc_compare.registry import add_plugin

ROOT = Path(__file__).resolve().parent.parent
# Settings of which older code knows nothing, with the value that it uses.
BEFORE: dict[str, dict[str, Any]] = {
    "probe": {"grid": ""},
    "training": {"convolution": "none", "drop": 0.0, "captured": False},
}
PARTS = ("status", "error", "arrays", "corpus")  # of a record, with rows: what came out
# Computes records with the code of a commit; in a process of that code's own. Modules
# may lie where they lay before the analysis had rooms, and records may be dicts.
THEN = """
import inspect, json, sys
from pathlib import Path
try:
    from posenc_compare.analysis.core.progress import Progress
    from posenc_compare.analysis.records.cells import cell_of
    from posenc_compare.analysis.engine.compute import compute
except ModuleNotFoundError:
    from posenc_compare.analysis.cells import cell_of
    from posenc_compare.analysis.compute import compute
    from posenc_compare.analysis.base import Progress
try:
    from posenc_compare.analysis.records.record import Fields, Spec
    read = lambda spec: Spec.from_json(Fields(spec, "spec"))
except ModuleNotFoundError:
    def read(spec):
        for name in ("kind", "task"):
            spec["setting"].pop(name, None)
        return spec
place, corpus = sys.argv[1:]
where = corpus if "corpus" in inspect.signature(cell_of).parameters else (corpus, "")
for path in sorted(Path(place).glob("*.spec")):
    record = compute(cell_of(read(json.loads(path.read_text())), where), Progress())
    body = record if isinstance(record, dict) else record.to_json()
    path.with_suffix(".json").write_text(json.dumps(body))
"""


def outcome(body: dict[str, Any], record: Record) -> bytes:
    """Return the canonical text of what came out, but for numbers that never repeat.

    Args:
        body: of a record.
        record: whose facts say which numbers repeat.
    """
    rows = [
        row
        for row in body.get("rows", [])
        if record.quantities[row["quantity"]].repeatable
    ]
    return canonical({**{name: body.get(name) for name in PARTS}, "rows": rows})


def compute_now(cells: dict[str, Cell], folder: Path, plugins: list[str]) -> Store:
    """Compute cells by key with the present code."""
    store = Store(folder)
    store.create()
    limits = Limits(workers=2)
    ends = (lambda cell, units: None, lambda record: print(".", end="", flush=True))
    with closing(Pool(limits.workers)) as pool:
        Scheduler(cells, store, plugins, limits, (), *ends, pool).run()
    print()
    return store


def as_then(record: Record) -> dict[str, Any]:
    """Return the spec of a record without settings of later, which it has since filed.

    Code that knows such a setting gives it the same value.
    """
    spec = record.spec.to_json()
    before = BEFORE.get(record.spec.kind, {}).items()
    known = {n: v for n, v in record.spec.setting.items() if (n, v) not in before}
    return {**spec, "setting": known}


def compute_then(
    records: list[Record], commit: str, corpus: str
) -> dict[str, dict[str, Any]]:
    """Compute records by key with the code of a commit, on this machine."""
    with tempfile.TemporaryDirectory() as place:
        tree, specs = Path(place) / "tree", Path(place) / "specs"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(tree), commit], check=True)
        specs.mkdir()
        try:
            for record in records:
                path = specs / f"{record.key}.spec"
                path.write_text(json.dumps(as_then(record)))
            command = [sys.executable, "-c", THEN, str(specs), corpus]
            subprocess.run(command, check=True, cwd=tree)
            found = {path.stem: path.read_bytes() for path in specs.glob("*.json")}
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    return {key: json.loads(text) for key, text in found.items()}


def disagreeing(
    sample: dict[str, Record],
    cells: dict[str, Cell],
    commit: str,
    corpus: str,
    plugins: list[str],
) -> tuple[list[str], int]:
    """Return the keys whose results differ, and how many needed the code of then."""
    with tempfile.TemporaryDirectory() as place:
        wanted = {cells[key].key(): cells[key] for key in sample}
        store = compute_now(wanted, Path(place) / "now", plugins)
        now = {key: store.read(cells[key].key()) or {} for key in sample}
    odd = [
        record
        for key, record in sample.items()
        if outcome(now[key], record) != outcome(record.to_json(), record)
    ]
    by_commit: dict[str, list[Record]] = {}
    wrong = []
    for record in odd:
        made = now[record.key].get("provenance", {})
        if record.provenance.text("arithmetic", "") == made.get("arithmetic"):
            wrong.append(record.key)  # no processor is to blame
            continue
        made_by = record.provenance.text("git_commit", commit)
        by_commit.setdefault(made_by, []).append(record)
    for made_by, records in by_commit.items():
        then = compute_then(records, made_by, corpus)
        for record in records:
            key = record.key
            if outcome(now[key], record) != outcome(then[key], record):
                wrong.append(key)
    return wrong, len(odd)


def main(
    folders: list[Path],
    sample: Annotated[int, typer.Option(help="Records without training.")] = 40,
    trained: Annotated[int, typer.Option(help="Records of trained networks.")] = 6,
    commit: Annotated[
        str, typer.Option(help="Of the code of records that do not name one.")
    ] = "HEAD",
    corpus: str = "stdlib",
    plugin: Annotated[list[str], typer.Option(help="Of schemes.")] = [],  # noqa: B006
    seed: int = 0,
) -> None:
    """File the records of folders under new keys, if a sample of them agrees."""
    for name in plugin:
        add_plugin(name)
    cells: dict[str, Cell] = {}
    stale: list[tuple[Store, Record]] = []  # two folders may have a cell each its own
    found: list[tuple[Store, Record]] = []
    for store in map(Store, folders):
        if store.packed.exists():
            sys.exit(f"{store.packed}: must be unpacked; `posenc-compare unpack` would")
        found += [(store, Record.from_json(body)) for body in store.records()]
    for store, record in found:
        try:
            cell = here(cell_of(record.spec, (corpus, "")))
        except (ConfigError, TypeError) as error:
            sys.exit(f"{record.key}: cannot be computed any more: {error}")
        if cell.key() != record.key:
            stale.append((store, record))
            cells[record.key] = cell
    counts = {"probe": sample, "training": trained}
    kinds: dict[str, list[str]] = {kind: [] for kind in counts}
    for key, cell in cells.items():
        kinds["training" if cell.setting.resumes else "probe"].append(key)
    draw = random.Random(seed)
    drawn = [
        key
        for kind, keys in kinds.items()
        for key in draw.sample(keys, min(counts[kind], len(keys)))
    ]
    print(f"{len(stale)} of {len(found)} records have new keys")
    print(f"computing {len(drawn)} of them again")
    again = {record.key: record for _, record in stale if record.key in drawn}
    wrong, odd = disagreeing(again, cells, commit, corpus, plugin)
    for key in wrong:
        print(f"{key}: {again[key].label} gives another result")
    if wrong or not drawn:
        sys.exit(f"{len(wrong)} of {len(drawn)} differ; nothing is filed anew")
    how = f"{len(drawn)} of {len(stale)} computed again, the same"
    if odd:
        how += f"; {odd} of them beside the code that made them, on another processor"
    for store, record in stale:
        made = record.provenance.with_facts(refiled_from=record.key, refiled_after=how)
        planned = cells[record.key].record()
        named = {n: getattr(planned, n) for n in ("spec", "label", "family", "source")}
        store.write(replace(record, **named, provenance=made).to_json())
        (store.cells / f"{record.key}.json").unlink()
    print(f"{len(stale)} records filed under new keys: {how}")


if __name__ == "__main__":
    typer.run(main)
