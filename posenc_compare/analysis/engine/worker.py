"""A worker: a process that computes one cell after another, each in a child of its own.

It imports torch once, without running anything of torch or of a plugin. For each
request it forks a child, which computes the cell. So no cell finds what another has
changed, and a scheme that raises, hangs, exits or crashes takes its own child along.
The child writes its answer to a file in memory, and the worker reports it.
"""

import contextlib
import ctypes
import faulthandler
import importlib
import json
import mmap
import os
import resource
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from posenc_compare.analysis.core.canonical import Body, canonical
from posenc_compare.errors import StoreError
from posenc_compare.registry import MEASURES, SCHEMES, add_plugin
from posenc_compare.sources import OURS, PlannedFinder, keep

if TYPE_CHECKING:
    from posenc_compare.analysis.records.cells import Cell

OFTEN = 0.2  # seconds between two reports of progress
UNWRITTEN = 70  # exit code of a child that could not write its answer
NOT_BEGUN = -1  # units of work, until the cell's own time begins
LONGEST = 1 << 25  # bytes of an answer, twice those of a record
PATIENCE = 1.0  # seconds for processes that a child has left behind to end
CONTROL = ctypes.CDLL(None).prctl  # of this process, by the system
DEATH_SIGNAL, SUBREAPER = 1, 36  # its options: at the parent's death; adopt orphans
PRELOADED = ("torch", "posenc_compare.analysis.engine.compute")
FINDER = PlannedFinder({})
STOP = threading.Event()


def main() -> NoReturn:
    """Compute what is requested, until the scheduler is gone."""
    connection = Connection(int(sys.argv[1]))
    os.set_inheritable(connection.fileno(), False)
    CONTROL(DEATH_SIGNAL, signal.SIGKILL)  # while torch is imported
    faulthandler.enable()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda *_: STOP.set())
    try:
        _prepare(json.load(sys.stdin))
        CONTROL(DEATH_SIGNAL, 0)
        CONTROL(SUBREAPER, 1)  # what a child leaves behind becomes ours
        while True:
            request = connection.recv()
            if "stop" not in request:
                _compute_apart(request, connection)
    except (EOFError, ConnectionError):  # the scheduler is gone
        os.killpg(0, signal.SIGKILL)
    except BaseException:
        traceback.print_exc()
    os._exit(1)  # at once, or the connection would be closed before


def _prepare(start: Body) -> None:
    """Import torch and this package from the source that was handed over."""
    keep(start["texts"])
    FINDER.modules = _paths(start)
    sys.meta_path.insert(0, FINDER)
    sys.path[:] = start["path"]
    for name in PRELOADED:
        importlib.import_module(name)
    import torch

    from posenc_compare.analysis.engine.provenance import place
    from posenc_compare.modified import shared_edits

    limits = start["limits"]
    if limits["deterministic"]:  # to be told no takes torch a second, for its compiler
        torch.use_deterministic_algorithms(True)
    place()
    shared_edits()  # asks git, which each child would do again
    resource.setrlimit(resource.RLIMIT_DATA, (limits["memory"], limits["memory"]))
    for plugin in start["plugins"]:
        add_plugin(plugin)


def _compute_apart(request: Body, connection: Connection) -> None:
    """Compute a cell in a child; report its progress and its end."""
    _warm(request)
    answer, done = os.memfd_create("answer"), mmap.mmap(-1, 8)
    _count(done)[0] = NOT_BEGUN
    STOP.clear()
    if not (pid := os.fork()):
        CONTROL(DEATH_SIGNAL, signal.SIGKILL)
        connection.close()
        _compute(request, answer, done)
    child, reported = os.pidfd_open(pid), NOT_BEGUN
    while child not in (ready := wait([connection, child], OFTEN)):
        if connection in ready and "stop" in connection.recv():
            os.kill(pid, signal.SIGTERM)
        if (now := _count(done)[0]) != reported:
            connection.send({"done": (reported := now)})
    _, status, usage = os.wait4(pid, 0)
    end = {
        "code": os.waitstatus_to_exitcode(status),
        "answer": os.pread(answer, LONGEST, 0),
        "peak": usage.ru_maxrss * 1024,
        "last": _left_behind(),
    }
    for descriptor in (answer, child):
        os.close(descriptor)
    connection.send(end)


def _warm(request: Body) -> None:
    """Import and read what each child would do again; nothing of a plugin runs."""
    from posenc_compare.analysis.records.cells import entries_of

    FINDER.modules = _paths(request)
    with contextlib.suppress(Exception):  # the child reports what is wrong
        cell = _cell(request)
        cell.spec()
        names = [entry.module for entry in entries_of(cell)]
        names = [name for name in names if name.split(".")[0] == OURS]
        for name in names + ["torch._dynamo"] * bool(cell.setting.task):
            importlib.import_module(name)  # that last one by optimisers, in seconds


def _cell(request: Body) -> "Cell":
    from posenc_compare.analysis.records.cells import cell_of
    from posenc_compare.analysis.records.record import Spec, parse

    spec = parse(request["spec"], Spec, "spec")
    return cell_of(spec, request["places"])


def _count(shared: mmap.mmap) -> "memoryview[int]":
    """Return the units of work in shared memory, as a sequence of one."""
    return memoryview(shared).cast("q")


def _left_behind() -> bool:
    """Return whether a child has left processes behind that do not end by themselves.

    They may compute or print, so that this worker is of no more use.
    """
    end = time.monotonic() + PATIENCE
    with contextlib.suppress(ChildProcessError):  # there are none
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.05)
        return True
    return False


def _compute(request: Body, answer: int, done: mmap.mmap) -> NoReturn:
    """Compute a cell in this process, write the answer and exit."""
    code = 1
    try:
        text = memoryview(canonical(_answer(request, _count(done))))
        code = UNWRITTEN
        while text:
            text = text[os.write(answer, text) :]
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _answer(request: Body, done: Any) -> Body:
    """Return the record of a cell, or why there is none."""
    from posenc_compare.analysis.core.progress import Progress
    from posenc_compare.analysis.engine.compute import compute
    from posenc_compare.analysis.training.checkpoints import Checkpoints, Stopped

    def advance(units: int) -> None:
        done[0] += units

    cell = _cell(request)
    checkpoints = Checkpoints(
        request["checkpoints"] and Path(request["checkpoints"]),
        request["interval"],
        stop=STOP.is_set,
        run=request["run"],
    )
    with contextlib.suppress(BaseException):  # `compute` reports what is wrong with it
        MEASURES.get(cell.measure)
        SCHEMES.get(cell.variant.name)
    done[0] = 0
    try:
        record = compute(cell, Progress(advance, checkpoints))
    except Stopped:
        return {"stopped": True}
    except StoreError as error:
        return {"store": str(error), "size": checkpoints.size}
    if others := FINDER.others():
        return {"unplanned": others}
    return {"record": record.to_json()}


def _paths(message: Body) -> dict[str, Path]:
    """Return by name the paths of modules whose source was handed over."""
    return {name: Path(path) for name, path in message["modules"].items()}
