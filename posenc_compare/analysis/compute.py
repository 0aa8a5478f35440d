"""Compute one cell in this process.

Whatever a scheme does in Python, raising what it likes, becomes a record that says so.
"""

import datetime
import math
import resource
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from posenc_compare.analysis.base import Progress, Result
from posenc_compare.analysis.cells import Cell
from posenc_compare.analysis.memory import out_of_memory
from posenc_compare.analysis.messages import one_line
from posenc_compare.analysis.probe import Probe
from posenc_compare.analysis.provenance import provenance
from posenc_compare.analysis.settings import Training
from posenc_compare.analysis.training.checkpoints import Stopped
from posenc_compare.analysis.training.corpus import load_corpus
from posenc_compare.errors import (
    CorpusError,
    DoorError,
    NonFiniteError,
    PluginError,
    PosencError,
    StoreError,
)
from posenc_compare.registry import MEASURES

FRAMES = 20  # calls of a traceback that a record keeps
HALF = ("bfloat16", "float16")  # where overflow is a finding


def compute(cell: Cell, progress: Progress) -> dict[str, Any]:
    """Return the record of a cell, whatever happens while it is computed.

    Raises:
        Stopped: if the run was asked to stop.
        StoreError: if a checkpoint cannot be kept.
    """
    started = datetime.datetime.now(datetime.UTC)
    clock = time.monotonic()
    record = {
        **cell.header(),
        "status": "ok",
        "error": "",
        "trace": [],
        "quantities": {},
        "rows": [],
        "arrays": {},
        "corpus": None,
    }
    torch.set_num_threads(cell.threads)
    # Softmax tails of steep biases are denormal numbers, which are slow. The switch
    # is the process's: it goes back to torch's default.
    torch.set_flush_denormal(True)
    try:
        record |= _measure(cell, progress)
    except (Stopped, StoreError):
        raise
    except BaseException as problem:
        record |= _failure(problem, cell)
    finally:
        torch.set_flush_denormal(False)
    return {
        **record,
        "provenance": {
            "started": started.isoformat(timespec="seconds"),
            "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - clock, 3),
            "resumed_from_step": progress.checkpoints.resumed_from,
            "checkpoints_refused": "; ".join(progress.checkpoints.refused),
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            * 1024,
            **provenance(cell),
        },
    }


def _measure(cell: Cell, progress: Progress) -> dict[str, Any]:
    measure = MEASURES.get(cell.measure)
    quantities = {n: asdict(q) for n, q in measure.quantities.items()}
    if isinstance(cell.setting, Training):
        corpus = load_corpus(cell.setting.corpus).facts()
        result: Result = measure.compute(cell.variant, cell.setting, progress)
    else:
        corpus = None
        probe = Probe(**asdict(cell.setting))
        result = measure.compute(cell.variant, probe, progress)
    return {
        "quantities": quantities,
        "rows": [_finite(asdict(row), cell.setting.dtype) for row in result.rows],
        "arrays": {name: rounded(array) for name, array in result.arrays.items()},
        "corpus": corpus,
    }


def _failure(problem: BaseException, cell: Cell) -> dict[str, Any]:
    """Return what a record says of an exception: status, message and last calls."""
    try:
        message = str(problem)
    except BaseException:
        message = "(its message cannot be shown)"
    status = "failed"
    if isinstance(problem, NonFiniteError):
        message = f"non-finite: {message}"
    elif isinstance(problem, PluginError | DoorError | CorpusError):
        pass
    elif isinstance(problem, PosencError):
        status = "unsupported"
    elif out_of_memory(problem):
        status = "lost"
        what = message or type(problem).__name__
        message = f"oom: {what}; the setting was {cell.setting.spec()}"
    else:
        message = f"{type(problem).__name__}: {message}"
    frames = traceback.extract_tb(problem.__traceback__)[-FRAMES:]
    trace = [f"{Path(f.filename).name}:{f.lineno} in {f.name}" for f in frames]
    return {
        "status": status,
        "error": one_line(message),
        "trace": [] if status == "unsupported" else trace,
    }


def _finite(row: dict[str, Any], dtype: str) -> dict[str, Any]:
    """Replace a number that JSON cannot hold by a note, where overflow is a finding.

    Raises:
        NonFiniteError: where it is a fault.
    """
    value = row["value"]
    if value is None or math.isfinite(value):
        return row
    if dtype in HALF:
        return {**row, "value": None, "note": row["note"] or f"not finite: {value}"}
    where = " ".join(filter(None, (row["quantity"], row["case"])))
    raise NonFiniteError(f"{where} came out as {value}")


def rounded(array: Any) -> Any:
    """Keep five significant digits of nested lists that only plots read."""
    if isinstance(array, list):
        return [rounded(item) for item in array]
    return float(f"{array:.5g}") if math.isfinite(array) else None
