"""A worker: a process that computes one cell after another, each in a child of its own.

It imports torch and this package once, and nothing of a plugin. For each request it
forks a child, which imports the plugins of the cell and computes it. So no cell finds
what another has changed, and a scheme that raises, hangs, exits or crashes takes its
own child along. A child whose code gives another key than the planned one refuses.
The child writes its answer to a file in memory, and the worker reports it.
"""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
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

from posenc_compare.errors import PosencError, StoreError
from posenc_compare.registry import MEASURES, SCHEMES, TASKS, load
from posenc_compare.settings.canonical import Body, canonical
from posenc_compare.source.files import OURS, forget

if TYPE_CHECKING:
    from posenc_compare.records.cells import Cell

OFTEN = 0.2  # seconds between two reports of progress
UNWRITTEN = 70  # exit code of a child that could not write its answer
NOT_BEGUN = -1  # units of work, until the cell's own time begins
LONGEST = 1 << 25  # bytes of an answer, twice those of a record
PATIENCE = 1.0  # seconds for processes that a child has left behind to end
CONTROL = ctypes.CDLL(None).prctl  # of this process, by the system
DEATH_SIGNAL, SUBREAPER = 1, 36  # its options: at the parent's death; adopt orphans
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
        _prepare(**connection.recv())
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


def _prepare(work: Body, path: list[str]) -> None:
    """Import torch and this package."""
    sys.path[:] = path
    gc.disable()  # imports leave nothing to collect

    from posenc_compare.run.provenance import place
    from posenc_compare.source.edits import shared_edits

    importlib.import_module("posenc_compare.run.compute")
    for registry in (SCHEMES, MEASURES, TASKS):
        registry.built_in()
    place()
    shared_edits()  # asks git, which each child would do again
    gc.enable()
    memory = int(work["memory"] * 2**30) or resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _compute_apart(request: Body, connection: Connection) -> None:
    """Compute a cell in a child; report its progress and its end."""
    _warm(request)
    answer = os.memfd_create("answer")
    done = memoryview(mmap.mmap(-1, 8)).cast("q")  # units of work
    done[0] = reported = NOT_BEGUN
    STOP.clear()
    gc.freeze()  # the child's collector would copy every page that both share
    if not (pid := os.fork()):
        CONTROL(DEATH_SIGNAL, signal.SIGKILL)
        connection.close()
        _compute(request, answer, done)
    child = os.pidfd_open(pid)
    while child not in (ready := wait([connection, child], OFTEN)):
        if connection in ready and "stop" in connection.recv():
            os.kill(pid, signal.SIGTERM)
        if done[0] != reported:
            connection.send(reported := done[0])
    _, status, usage = os.wait4(pid, 0)
    end = {
        "code": os.waitstatus_to_exitcode(status),
        "answer": os.pread(answer, LONGEST, 0),
        "peak": usage.ru_maxrss * 1024,
        "last": _left_behind(),
    }
    os.close(answer)
    os.close(child)
    connection.send(end)


def _warm(request: Body) -> None:
    """Import and read what each child would do again; nothing of a plugin runs."""
    from posenc_compare.tasks.corpus import load_corpus

    names = [module for module, *_ in request["plugins"]]
    names = [name for name in names if name.split(".")[0] == OURS]
    spec = request["spec"]
    with contextlib.suppress(Exception):  # the child reports what is wrong
        if request["reads_corpus"]:
            text = load_corpus(*request["places"][:2])
            if text.sha256 != spec["setting"]["corpus_sha256"]:
                load_corpus.cache_clear()  # it may be whole again for the next cell
        # The profiler of memory imports the compiler too, which takes seconds.
        profiled = MEASURES.get(spec["measure"]["name"]).exclusive
        if profiled or spec["setting"].get("compiled"):
            names.append("torch._inductor")
        for name in names:
            importlib.import_module(name)
        if len(names) == len(request["plugins"]):
            _cell(request).key()


def _cell(request: Body) -> "Cell":
    from posenc_compare.records.cells import cell_of
    from posenc_compare.records.record import Spec, parse

    spec = parse(request["spec"], Spec, "spec")
    return cell_of(spec, request["places"])


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


def _compute(request: Body, answer: int, done: "memoryview[int]") -> NoReturn:
    """Compute a cell in this process, write the answer and exit."""
    code = 1
    try:
        text = memoryview(canonical(_answer(request, done)))
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
    from posenc_compare.records.cells import plugins_of
    from posenc_compare.run.compute import compute
    from posenc_compare.train.checkpoints import Checkpoints, Stopped
    from posenc_compare.train.progress import Progress

    def advance(units: int) -> None:
        done[0] += units

    checkpoints = Checkpoints(
        Path(request["checkpoints"]) if request["checkpoints"] else None,
        request["interval"],
        stop=STOP.is_set,
    )
    try:
        for module, path, origin in request["plugins"]:
            load(module, Path(path), origin)
        cell = _cell(request)
        if cell.key() != request["key"]:
            return _code_changed(request)
    except PosencError as error:
        return {"refused": str(error)}
    code = {str(file) for one in plugins_of(cell) for file in one.own_code.files}
    before = set(sys.modules)
    done[0] = 0
    try:
        record = compute(cell, Progress(advance, checkpoints))
    except Stopped:
        return {"stopped": True}
    except StoreError as error:
        return {"store": str(error)}
    late = [sys.modules[name] for name in sys.modules.keys() - before]
    if code & {getattr(module, "__file__", None) for module in late}:
        forget()
        if cell.key() != request["key"]:
            return _code_changed(request)
    return {"record": record.to_json()}


def _code_changed(request: Body) -> Body:
    """Return the answer of a cell whose code is not the one that was planned."""
    names = [Path(origin).name for _, _, origin in request["plugins"]]
    what = ", ".join(names) or OURS
    again = "changed since the run was planned; run the command again"
    return {"refused": f"{what} {again}"}
