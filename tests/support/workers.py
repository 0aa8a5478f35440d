"""Workers that outlive a run of this process: one takes seconds to start."""

import os
import time
from pathlib import Path
from typing import Any

from posenc_compare.run.workers import End, Worker
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.table import Work

IDLE: list["Kept"] = []
MOST = 2  # idle ones, each with torch in its memory


class Kept(Worker):
    """A worker that waits for another run when it is closed, unless it is busy."""

    def __init__(self, work: Work, path: list[str]) -> None:
        self.busy, self.surroundings = False, surroundings(work, path)
        super().__init__(work, path)

    def send(self, request: Body) -> None:
        self.busy |= "spec" in request
        super().send(request)

    def receive(self) -> int | End:
        message = super().receive()
        if isinstance(message, End):
            self.busy = message.last
        return message

    def close(self) -> None:
        if self.busy or self.process.poll() is not None:
            super().close()
            return
        IDLE.append(self)
        if len(IDLE) > MOST:
            Worker.close(IDLE.pop(0))


def surroundings(work: Work, path: list[str]) -> Any:
    """Return what a worker takes over from the process that starts it."""
    words = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    return work.memory, path, Path.cwd(), words


def lend(work: Work, path: list[str]) -> Kept:
    """Return an idle worker that was started in the same surroundings, or a new one."""
    wanted = surroundings(work, path)
    for worker in IDLE:
        if worker.surroundings == wanted and worker.process.poll() is None:
            IDLE.remove(worker)
            worker.listen()
            worker._printed = b""  # by another run
            worker._timeout, worker._looked = work.timeout, time.monotonic()
            return worker
    return Kept(work, path)


def end_all() -> None:
    """End those that are idle."""
    for worker in IDLE:
        Worker.close(worker)
    IDLE.clear()
