"""A worker: a process that computes one cell after another for a scheduler.

It reads requests from its standard input and answers on a pipe of its own, one JSON
text per line, so that what a scheme prints is never taken for an answer. What it
computes with is the source that the scheduler read, handed over in a file. When its
standard input ends, it ends too, with all that it started.
"""

import contextlib
import faulthandler
import json
import os
import queue
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_compare.analysis.core.canonical import Body, canonical
from posenc_compare.errors import StoreError
from posenc_compare.registry import MEASURES, REGISTRIES, add_plugin
from posenc_compare.sources import OURS, PlannedFinder, keep

if TYPE_CHECKING:
    from posenc_compare.analysis.core.progress import Progress
    from posenc_compare.analysis.records.cells import Cell
    from posenc_compare.analysis.training.checkpoints import Checkpoints

OFTEN = 0.2  # seconds between two reports of progress
PROTOCOL = 70  # exit code of a worker that could not answer
STOP = threading.Event()


def main() -> None:
    """Serve requests until there are no more."""
    pipe, source = map(int, sys.argv[1:])
    os.set_inheritable(pipe, False)
    faulthandler.enable()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda *_: STOP.set())
    requests: queue.SimpleQueue[Body] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    finder = _planned(source)
    first = requests.get()
    sys.path[:] = first["path"]
    # Torch takes seconds to import. Meanwhile, that thread hears if it is in vain.
    import torch

    from posenc_compare.analysis.engine.compute import compute
    from posenc_compare.analysis.engine.provenance import place
    from posenc_compare.analysis.training.checkpoints import Stopped
    from posenc_compare.global_state import changes, process_state, restore

    # Torch's own compiler, which starts processes, leaves none that answers.
    own = all(name.split(".")[0] == OURS for name in finder.modules)
    kept = ("child processes",) if own else ()
    _prepare(first)
    if first["deterministic"]:  # to be told no takes torch a second, for its compiler
        torch.use_deterministic_algorithms(True)
    place()
    _answer(pipe, {"ready": True})
    _import_plugins(finder)
    while True:
        request = requests.get()
        token = request["token"]
        cell, progress, checkpoints = _task(request, pipe)
        with contextlib.suppress(Exception):  # `compute` tells what is wrong with it
            MEASURES.get(cell.measure)
            cell.spec()  # which reads and hashes all source, once
        _answer(pipe, {"token": token, "progress": 0})  # the scheme's own time begins
        before = process_state()
        try:
            record = compute(cell, progress)
        except Stopped:
            _answer(pipe, {"token": token, "stopped": True})
            os._exit(0)
        except StoreError as error:
            size = checkpoints.size
            _answer(pipe, {"token": token, "store": str(error), "size": size})
            os._exit(0)
        body = record.to_json()
        if others := finder.others():
            body["spec"] = {**record.spec.to_json(), "not_as_planned": others}
        restore(before)
        # What cannot be put back, and a GPU whose context is broken, harm what follows.
        broken = record.status == "failed" and cell.setting.device != "cpu"
        last = broken or bool(changes(before, *kept))
        _answer(pipe, {"token": token, "body": body, "last": last})


def _listen(requests: queue.SimpleQueue[Body]) -> None:
    """Pass requests on; at their end, end this process and all that it started."""
    try:
        for line in sys.stdin:
            request = json.loads(line)
            if "stop" in request:
                STOP.set()
            else:
                requests.put(request)
    finally:
        os.killpg(0, signal.SIGKILL)


def _planned(source: int) -> PlannedFinder:
    """Take the source that was handed over in place of what the files hold now."""
    with open(source, "rb") as file:
        whole = json.load(file)
    keep(whole["texts"])
    paths = {name: Path(path) for name, path in whole["modules"].items()}
    finder = PlannedFinder(paths)
    sys.meta_path.insert(0, finder)
    return finder


def _prepare(request: Body) -> None:
    """Take over the limit of memory and the plugins."""
    resource.setrlimit(resource.RLIMIT_DATA, (request["memory"], request["memory"]))
    for plugin in request["plugins"]:
        add_plugin(plugin)


def _import_plugins(finder: PlannedFinder) -> None:
    """Import all plugins of this worker before its first cell.

    What a plugin changes when it is imported, all its cells find so. One that cannot be
    imported says so in the record of each cell.
    """
    for registry in REGISTRIES:
        for name, entry in registry.entries().items():
            if entry.module in finder.modules and not entry.module.startswith(OURS):
                with contextlib.suppress(BaseException):
                    registry.get(name)


def _task(request: Body, pipe: int) -> "tuple[Cell, Progress, Checkpoints]":
    from posenc_compare.analysis.core.progress import Progress
    from posenc_compare.analysis.records.cells import cell_of
    from posenc_compare.analysis.records.record import Fields, Spec
    from posenc_compare.analysis.training.checkpoints import Checkpoints

    done, told = 0, 0.0

    def advance(units: int) -> None:
        nonlocal done, told
        done += units
        if time.monotonic() - told > OFTEN:
            told = time.monotonic()
            _answer(pipe, {"token": request["token"], "progress": done})

    folder = request["checkpoints"] and Path(request["checkpoints"])
    spec = Spec.from_json(Fields(request["spec"], "spec"))
    cell = cell_of(spec, request["places"])
    checkpoints = Checkpoints(
        folder, request["interval"], stop=STOP.is_set, run=request["run"]
    )
    return cell, Progress(advance, checkpoints), checkpoints


def _answer(pipe: int, message: Body) -> None:
    view = memoryview(canonical(message) + b"\n")
    try:
        while view:
            view = view[os.write(pipe, view) :]
    except OSError:
        os._exit(PROTOCOL)
