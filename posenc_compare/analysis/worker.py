"""A worker: a process that computes one cell after another for a supervisor.

It reads requests from its standard input and answers on a pipe of its own, one JSON
text per line, so that what a scheme prints is never taken for an answer. When its
standard input ends, it ends too, with all that it started.
"""

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
from typing import Any

from posenc_compare.analysis.cells import canonical, cell_of
from posenc_compare.analysis.process import PROTOCOL
from posenc_compare.errors import StoreError
from posenc_compare.registry import SCHEMES

OFTEN = 0.2  # seconds between two reports of progress
STOP = threading.Event()


def main() -> None:
    """Serve requests until there are no more."""
    pipe = int(sys.argv[1])
    os.set_inheritable(pipe, False)
    faulthandler.enable()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda *_: STOP.set())
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    # Torch takes seconds to import. Meanwhile, that thread hears if it is in vain.
    from posenc_compare.analysis.compute import compute
    from posenc_compare.analysis.training.checkpoints import Stopped

    while True:
        request = requests.get()
        if "memory" in request:
            _prepare(request)
            _answer(pipe, {"ready": True})
            continue
        token = request["token"]
        try:
            body = compute(*_task(request, pipe))
        except Stopped:
            _answer(pipe, {"token": token, "stopped": True})
            os._exit(0)
        except StoreError as error:
            _answer(pipe, {"token": token, "store": str(error)})
            os._exit(0)
        _answer(pipe, {"token": token, "body": body})


def _listen(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
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


def _prepare(request: dict[str, Any]) -> None:
    """Take over where modules are found, plugins, and the limit of memory."""
    sys.path[:] = request["path"]
    resource.setrlimit(resource.RLIMIT_DATA, (request["memory"], request["memory"]))
    for plugin in request["plugins"]:
        SCHEMES.add_plugin(plugin)


def _task(request: dict[str, Any], pipe: int) -> Any:
    from posenc_compare.analysis.base import Progress
    from posenc_compare.analysis.training.checkpoints import Checkpoints

    done, told = 0, 0.0

    def advance(units: int) -> None:
        nonlocal done, told
        done += units
        if time.monotonic() - told > OFTEN:
            told = time.monotonic()
            _answer(pipe, {"token": request["token"], "progress": done})

    folder = request["checkpoints"] and Path(request["checkpoints"])
    checkpoints = Checkpoints(folder, request["interval"], STOP.is_set)
    return cell_of(request["spec"], request["corpus"]), Progress(advance, checkpoints)


def _answer(pipe: int, message: dict[str, Any]) -> None:
    view = memoryview(canonical(message) + b"\n")
    try:
        while view:
            view = view[os.write(pipe, view) :]
    except OSError:
        os._exit(PROTOCOL)


if __name__ == "__main__":
    main()
