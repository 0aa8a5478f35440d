"""Compute one cell in this process.

Whatever a scheme does in Python, raising what it likes, becomes a record that says so.
"""

import contextlib
import datetime
import math
import re
import resource
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from posenc_compare.errors import (
    ConfigError,
    CorpusError,
    HookError,
    NoCodeError,
    NonFiniteError,
    PosencError,
    ShapeError,
    UndefinedPositionError,
    UnfitError,
)
from posenc_compare.measures.codes import code_of
from posenc_compare.measures.measure import Measure, Row
from posenc_compare.measures.probe import Probe
from posenc_compare.records.cells import Cell
from posenc_compare.records.quantities import ONE_LAYER, Array, Curve, joined
from posenc_compare.records.record import Facts, Record
from posenc_compare.records.sanitize import one_line
from posenc_compare.registry import MEASURES, SCHEMES
from posenc_compare.run.provenance import provenance
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.progress import Progress
from posenc_compare.variants import Variant

FRAMES = 20  # calls of a traceback that a record keeps
HALF = ("bfloat16", "float16")  # where overflow is a finding
FULL = re.compile(
    r"DefaultCPUAllocator: can't allocate memory|(CUDA|HIP)( driver)? error: out of mem"
    r"|[A-Z]_ALLOC(ATION)?_FAILED"  # by cuBLAS, cuDNN and their like
)


def compute(cell: Cell, progress: Progress) -> Record:
    """Return the record of a cell, whatever happens while it is computed."""
    started = datetime.datetime.now(datetime.UTC)
    clock = time.monotonic()
    record = cell.record()
    torch.set_num_threads(cell.threads)
    if cell.setting.device == "cuda":
        torch.compiler.reset()  # what earlier cells compiled counts against a limit
    # Softmax tails of steep biases are denormal numbers, which are slow. The switch
    # is the process's: it goes back to torch's default.
    torch.set_flush_denormal(True)
    try:
        record = _with_result(record, cell, progress)
    except BaseException as problem:
        if problem is progress.checkpoints.raised:
            raise
        record = _with_failure(record, problem, cell)
    finally:
        torch.set_flush_denormal(False)
    ended = datetime.datetime.now(datetime.UTC)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    facts: Facts = {
        "started": started.isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - clock, 3),
        "resumed_from_step": progress.checkpoints.resumed_from,
        "checkpoints_refused": "; ".join(progress.checkpoints.refused),
        "peak_memory_bytes": peak,
    }
    return replace(record, provenance={**facts, **provenance(cell)})


def _with_result(record: Record, cell: Cell, progress: Progress) -> Record:
    """Return the record with the result of the measure."""
    measure: Measure = MEASURES.get(cell.measure)
    reads = cell.setting.reads_corpus
    corpus = load_corpus(*cell.setting.places[:2]).facts() if reads else {}
    given = cell.setting
    if isinstance(given, ProbeSetting):
        given = Probe(**asdict(given))
    result = measure.compute(cell.variant, given, progress)
    if isinstance(given, Probe) and given.build(cell.variant).facts.mixed:
        rows = [*map(_of_one_layer, result.rows)]
        result = replace(result, rows=rows, arrays={})
    names = {q.name for q in result.quantities} or measure.quantities.keys()
    rows = [_plain(row, measure) for row in result.rows]
    _check_rows(rows, measure)
    if measure.quantities and not (rows or result.arrays):
        raise ConfigError(f"{measure.name}: must return rows or arrays, got neither")
    return replace(
        record,
        quantities={n: q for n, q in measure.quantities.items() if n in names},
        views={n: view for n, view in measure.views.items() if n in names},
        rows=tuple(_finite(row, cell.setting.dtype) for row in rows),
        arrays={name: round_array(array) for name, array in result.arrays.items()},
        corpus={**corpus},
    )


def _of_one_layer(row: Row) -> Row:
    if row.value is None:
        return row
    return replace(row, note=joined([ONE_LAYER, row.note]))


def _plain(row: Row, measure: Measure) -> Row:
    """Return a row with numbers of Python's own, as records keep them."""

    def number(name: str, value: Any) -> float | None:
        if value is None or type(value) in (int, float):
            return value
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            if not isinstance(value, str | bytes):
                return float(value)
        raise ConfigError(
            f"{measure.name}: {name} of a row must be a number, got {value!r:.40}"
        )

    for name, text in (("case", row.case), ("note", row.note)):
        if not isinstance(text, str):
            raise ConfigError(
                f"{measure.name}: {name} of a row must be text, got {text!r:.40}"
            )
    return replace(row, value=number("value", row.value), x=number("x", row.x))


def _check_rows(rows: list[Row], measure: Measure) -> None:
    """Refuse rows that a table could not distinguish, or has no place for."""
    seen: set[object] = set()
    for row in rows:
        place = (row.quantity, row.case, row.x)
        curve = isinstance(measure.views.get(row.quantity), Curve)
        if row.quantity not in measure.quantities:
            fault = "be of a quantity of the measure"
        elif (row.x is None and curve) or not math.isfinite(row.x or 0):
            fault = "have a finite x on a curve"
        elif place in seen:
            fault = "be there once, not twice"
        else:
            seen.add(place)
            continue
        raise ConfigError(
            f"{measure.name}: row {row.quantity!r:.80}, case {row.case!r:.80}, x "
            f"{row.x} must {fault}"
        )


def _with_failure(record: Record, problem: BaseException, cell: Cell) -> Record:
    """Return the record with an exception: status, message and last calls."""
    message, status = _text(problem), "failed"
    if isinstance(problem, NonFiniteError):
        message = f"non-finite: {message}"
    elif isinstance(problem, PosencError):
        status = "unsupported" if _refuses(problem) else "failed"
    elif out_of_memory(problem):
        status = "lost"
        what = message or type(problem).__name__
        message = f"oom: {what}; the setting was {cell.setting.spec()}"
    else:
        where = _line_in_plugin(problem, cell)
        message = f"{type(problem).__name__}{where}: {message}"
    frames = traceback.extract_tb(problem.__traceback__)[-FRAMES:]
    trace = [f"{Path(f.filename).name}:{f.lineno} in {f.name}" for f in frames]
    return replace(
        record,
        status=status,
        error=one_line(message),
        trace=() if status == "unsupported" else tuple(trace),
    )


def out_of_memory(problem: BaseException) -> bool:
    """Return whether an exception, or one that it came from, is for want of memory.

    Compilers hand on what they met with `from None`, so that no cause shows.
    """
    found = [problem]
    for error in found:
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return True
        if isinstance(error, RuntimeError) and FULL.search(_text(error)):
            return True
        inner = vars(error).get("inner_exception")
        for other in (error.__cause__, error.__context__, inner):
            known = any(other is one for one in found)
            if isinstance(other, BaseException) and not known:
                found.append(other)
    return False


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # of a scheme
        return "(its message cannot be shown)"


def _line_in_plugin(problem: BaseException, cell: Cell) -> str:
    """Return the innermost line of the scheme, as ` at file.py:7`; "" if built in."""
    modules = {SCHEMES.entry(name).module for name in cell.variant.schemes}
    found = ""
    for frame, line in traceback.walk_tb(problem.__traceback__):
        module = frame.f_globals.get("__name__")
        if type(module) is str and module in modules and not SCHEMES.owns(module):
            found = f" at {Path(frame.f_code.co_filename).name}:{line}"
    return found


def _refuses(problem: PosencError) -> bool:
    """Return whether an error says that a scheme cannot serve a setting.

    It does while the scheme is built, and of a position that the scheme does not
    define. A scheme that raises anything else later has failed.
    """
    if isinstance(problem, UndefinedPositionError | UnfitError):
        return True
    if isinstance(problem.__cause__, UndefinedPositionError):
        return True
    calls = [frame.f_code for frame, _ in traceback.walk_tb(problem.__traceback__)]
    if isinstance(problem, NoCodeError):
        return calls[-1] is code_of.__code__
    if isinstance(problem, CorpusError | HookError):
        return False
    building = Variant.build.__code__ in calls
    return building and isinstance(problem, ConfigError | ShapeError)


def _finite(row: Row, dtype: str) -> Row:
    """Replace a number that JSON cannot hold by a note, where overflow is a finding."""
    value = row.value
    if value is None or math.isfinite(value):
        return row
    if dtype in HALF:
        return replace(row, value=None, note=row.note or f"not finite: {value}")
    where = " ".join(filter(None, (row.quantity, row.case)))
    raise NonFiniteError(f"{where} came out as {value}")


def round_array(array: Array) -> Array:
    """Keep five significant digits of nested lists that only plots read."""
    if isinstance(array, Sequence):
        return [round_array(item) for item in array]
    if array is None or not math.isfinite(array):
        return None
    return float(f"{array:.5g}")
