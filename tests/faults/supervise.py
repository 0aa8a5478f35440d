"""Compute cells under a scheduler, as `run` does, without its tables and plots.

As a program it takes one JSON text and prints one: what stopped it, by how many bytes
this process grew at its largest, and when each record was written.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from posenc_compare.records.cells import Cell
from posenc_compare.records.store import Store
from posenc_compare.registry import SCHEMES, add_plugin
from posenc_compare.run.plan import Settings, missing, plan
from posenc_compare.run.scheduler import Event, Scheduler
from posenc_compare.run.workers import Pool
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.table import Work
from posenc_compare.settings.training import Training
from posenc_compare.variants import parse_variants


def cells(asked: dict[str, Any]) -> list[Cell]:
    """Return the cells that `posenc-compare run` plans with the same sizes."""
    for plugin in asked.get("plugins", []):
        add_plugin(plugin)
    training = Training(
        layers=1,
        width=16,
        heads=2,
        length=8,
        steps=asked.get("steps", 5),
        batch=2,
        longest=2,
        test_bytes=64,
        corpus=asked.get("corpus", ""),
    )
    probe = ProbeSetting(width=16, heads=2, positions=64)
    variants = parse_variants(asked["schemes"])
    settings = Settings(probe, (training,), tuple(range(asked.get("seeds", 1))))
    return plan(variants, asked["measures"], settings, 1)


def ask(
    folder: Path, schemes: str, measures: list[str], **asked: Any
) -> tuple[list[Any], list[dict[str, Any]], dict[tuple[str, str], dict[str, Any]]]:
    """Run this program on cells; it must succeed, and every record be intact.

    Returns:
        What it prints, what its schemes log, and records by label and measure.
    """
    limits = {"timeout": 120.0, **asked.pop("limits", {})}
    asked |= {"out": str(folder / "run"), "schemes": schemes, "measures": measures}
    (log := folder / "log").touch()
    process = supervised(asked, log, **limits)
    printed, said = finish(process, 600)
    assert (process.returncode, said) == (0, "")
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    store = Store(folder / "run")
    records = list(store.records())
    assert not store.damaged
    assert len(records) == len(list(store.cells.glob("*")))
    found = {(r["label"], r["spec"]["measure"]["name"]): r for r in records}
    return json.loads(printed), logged, found


def scheduler(folder: Path, wanted: dict[str, Cell]) -> Scheduler:
    """Return a run over cells in one worker of this process."""
    store = Store(folder)
    store.create()
    work = Work(workers=1)
    return Scheduler(wanted.values(), store, Pool(work), work)


def computed(folder: Path, **asked: Any) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Compute cells so, and return records by label, measure and seed."""
    run = scheduler(folder / "run", {cell.key(): cell for cell in cells(asked)})
    with closing(run.pool):
        run.run()
    forget_plugins()
    found = [(record, record["spec"]) for record in run.store.records()]
    return {
        (r["label"], s["measure"]["name"], s["setting"]["seed"]): r for r, s in found
    }


def start(*words: str | Path) -> subprocess.Popen:
    """Start `posenc-compare` with arguments."""
    return subprocess.Popen(
        [sys.executable, "-m", "posenc_compare", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    )


def supervised(
    asked: dict[str, Any], log: Path = Path(os.devnull), **limits: Any
) -> subprocess.Popen:
    """Start a scheduler over cells, without tables and plots; schemes may log."""
    asked = {"limits": {"workers": 2, "memory": 64.0, **limits}, **asked}
    command, pipe = [sys.executable, __file__, json.dumps(asked)], subprocess.PIPE
    env = {**os.environ, "POSENC_TEST_LOG": str(log)}
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)


def finish(process: subprocess.Popen, seconds: float = 120) -> tuple[str, str]:
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return out, err


def forget_plugins() -> None:
    """Remove all that plugins given as files have declared in this process."""
    for entry in SCHEMES.entries().values():
        if entry.module.startswith("posenc_plugin"):
            SCHEMES.drop(entry.module)


def largest() -> int:
    """Return the most memory that this process ever had, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmHWM")


def main() -> None:
    """Compute what is missing."""
    asked = json.loads(sys.argv[1])
    store = Store(Path(asked["out"]))
    store.create()
    todo = missing(cells(asked), store)
    modules, before, times = set(sys.modules), largest(), {}

    def listen(event: Event) -> None:
        if event.record:
            times[event.record.label] = time.time()

    work = Work(**asked["limits"])
    with closing(Pool(work)) as pool:
        run = Scheduler(todo.values(), store, pool, work, listen)
        stopped_by = run.run()
    grown = largest() - before
    imported = sorted(set(sys.modules) - modules)
    print(json.dumps([stopped_by, grown, times, imported]))


if __name__ == "__main__":
    main()
