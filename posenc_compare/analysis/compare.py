"""The comparison: names and settings to cells, cells to records.

A cell that cannot be computed becomes a record that says why, and the others go on.
"""

import datetime
import math
import platform
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from posenc_compare.analysis.base import Result
from posenc_compare.analysis.cells import Cell
from posenc_compare.analysis.probe import Probe
from posenc_compare.analysis.store import Store
from posenc_compare.analysis.training.corpus import load_corpus
from posenc_compare.analysis.training.setting import Training
from posenc_compare.errors import DivergedError, PluginError, PosencError
from posenc_compare.registry import MEASURES, SCHEMES
from posenc_compare.schemes import Variant

MESSAGE = 2000  # characters of an error message that a record keeps


def plan(
    variants: list[Variant],
    measures: list[str],
    probe: Probe,
    training: Training,
    seeds: int,
    threads: int,
) -> list[Cell]:
    """Return the cells of a comparison, those of one seed together.

    Args:
        variants: rows of the comparison.
        measures: registry names.
        probe: setting of measures without training; its seed is replaced.
        training: setting of trained measures; its seed is replaced.
        seeds: seeds `0 ... seeds - 1`, the same for every variant.
        threads: of the machine, for each cell.

    Raises:
        ConfigError: if a measure is unknown, or the corpus is missing or too small.
    """
    facts = {name: MEASURES.get(name) for name in measures}
    if any(measure.trained for measure in facts.values()):
        corpus = load_corpus(training.corpus)
        corpus.test_windows(training.test_lengths[-1], training.test_bytes)
        corpus.batch(1, training.length, seed=0, step=0)
        training = replace(training, corpus_sha256=corpus.sha256)
    return [
        Cell(
            variant,
            name,
            replace(training if facts[name].trained else probe, seed=seed),
            threads,
        )
        for seed in range(seeds)
        for name in sorted(measures, key=lambda name: facts[name].trained)
        if seed == 0 or not facts[name].once
        for variant in variants
    ]


def run(
    cells: Iterable[Cell],
    store: Store,
    progress: Callable[[Cell, int], None],
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Compute cells and write a record of each.

    Args:
        cells: what to compute; see `missing`.
        store: where records go.
        progress: called with a cell and the units of its work just done.
        report: called with each record once it is written.
    """
    for cell in cells:
        torch.set_num_threads(cell.threads)
        done = 0

        def advance(units: int, cell: Cell = cell) -> None:
            nonlocal done
            done += units
            progress(cell, units)

        body = compute(cell, advance)
        store.write(body)
        progress(cell, cell.setting.work - done)
        report(body)


def missing(cells: Iterable[Cell], store: Store) -> list[Cell]:
    """Return the cells, each once, that have no intact record or one that failed."""
    keyed = {cell.key(): cell for cell in cells}
    records = {key: store.read(key) for key in keyed}
    return [
        cell
        for key, cell in keyed.items()
        if (record := records[key]) is None or record["status"] == "failed"
    ]


def compute(cell: Cell, progress: Callable[[int], None]) -> dict[str, Any]:
    """Return the record of a cell, whatever happens while it is computed."""
    entry = SCHEMES.entry(cell.variant.name)
    measure = MEASURES.get(cell.measure)
    started = datetime.datetime.now(datetime.UTC)
    clock = time.monotonic()
    status, error, result = "ok", "", Result([])
    # Softmax tails of steep biases are denormal numbers, which are slow. The switch
    # is the process's: it goes back to torch's default.
    torch.set_flush_denormal(True)
    try:
        result = measure.compute(cell.variant, cell.setting, progress)
    except (PluginError, DivergedError) as problem:
        status, error = "failed", str(problem)
    except PosencError as problem:
        status, error = "unsupported", str(problem)
    except Exception as problem:
        status = "failed"
        frame = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        error = f"{type(problem).__name__} at {where}: {problem}"
    finally:
        torch.set_flush_denormal(False)
    return {
        "spec": cell.spec(),
        "status": status,
        "error": " ".join(error.split())[:MESSAGE],
        "label": cell.variant.label,
        "family": cell.variant.family,
        "source": entry.facts.get("source", ""),
        "quantities": {n: asdict(q) for n, q in measure.quantities.items()},
        "rows": [_finite(asdict(row)) for row in result.rows],
        "arrays": {name: rounded(array) for name, array in result.arrays.items()},
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - clock, 3),
        "machine": machine(cell.setting.device),
        "corpus": (
            load_corpus(cell.setting.corpus).facts()
            if isinstance(cell.setting, Training)
            else None
        ),
    }


def machine(device: str) -> dict[str, Any]:
    """Return what a record says of the machine; nothing that names its owner."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "flush_denormal": True,
    }
    if device.startswith("cuda"):
        facts["device"] = torch.cuda.get_device_name(device)
        facts["cuda"] = torch.version.cuda
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor()


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Replace a number that JSON cannot hold by a note."""
    value = row["value"]
    if value is not None and not math.isfinite(value):
        return {**row, "value": None, "note": row["note"] or f"not finite: {value}"}
    return row


def rounded(array: Any) -> Any:
    """Keep five significant digits of nested lists that only plots read."""
    if isinstance(array, list):
        return [rounded(item) for item in array]
    return float(f"{array:.5g}") if math.isfinite(array) else None
