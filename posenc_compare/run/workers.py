"""Worker processes of this machine, each with a connection to the scheduler."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Pipe, wait
from typing import Any

from posenc_compare.fresh import python, search_path
from posenc_compare.records.sanitize import one_line
from posenc_compare.registry import environment
from posenc_compare.run.worker import UNWRITTEN
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.table import Work

START = 120.0  # seconds that a worker may take until it begins a cell
TAIL = 2000  # bytes kept of what a scheme prints
CHUNK = 1 << 16  # bytes, as many as a pipe holds
# A worker's C library keeps memory that was freed: asking the system for 32 MiB again
# costs as much as copying it eight times. Small blocks are joined when they are freed,
# else they leave holes between large ones, which tensors do not fit in: at 32 768
# tokens, `path` took more than 16 GiB, and takes 2.7. Values that the user sets take
# precedence.
KEEP_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0",
}
SERVE = "from posenc_compare.run.worker import main; main()"


@dataclass(frozen=True)
class End:
    """How the computation of a cell ended."""

    fault: str  # why there is no answer; empty if there is one
    answer: bytes = b""  # JSON text that the cell has written, not checked yet
    printed: tuple[str, ...] = ()  # the last lines that it printed
    peak_memory: int = 0  # bytes; 0 if unknown
    last: bool = True  # whether the worker can compute no other cell


class Worker:
    """A process that computes one cell at a time, in a process group of its own."""

    def __init__(self, work: Work, path: list[str]) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            self.process = subprocess.Popen(
                python(SERVE, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=KEEP_MEMORY | environment(),
            )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self._printed = b""
        self._timeout = work.timeout
        self._looked = time.monotonic()
        self.send({"work": asdict(work), "path": path})

    def send(self, request: Body) -> None:
        """Send one request; a process that has died is noticed elsewhere."""
        self._spent, self._limit = 0.0, max(self._timeout, START)
        with suppress(ConnectionError):
            self.connection.send(request)

    def receive(self) -> int | End:
        """Return units of work that are done, or the end of a cell."""
        self._spent = 0.0
        try:
            message = self.connection.recv()
        except (EOFError, OSError):  # the process is dead
            self.kill()
            return self._end(self.process.returncode)
        if isinstance(message, dict):
            return self._end(**message)
        self._limit = self._timeout
        return message

    def listen(self) -> None:
        """Keep the end of what was printed."""
        with suppress(BlockingIOError):
            printed = os.read(self.output.fileno(), CHUNK)
            self._printed = (self._printed + printed)[-TAIL:]

    def overdue(self) -> End | None:
        """Return the end of a cell that has made no progress for too long.

        Time counts in small steps, so that a pause of the whole machine, or of this
        process, takes nothing from it. A worker that is paused alone does hang.
        """
        now = time.monotonic()
        self._spent += min(now - self._looked, 1.0)
        self._looked = now
        if self._spent <= self._limit:
            return None
        self.kill()
        fault = f"timeout: no progress in {self._timeout:g} s"
        return End(fault, printed=self._lines())

    def kill(self) -> None:
        """End the process and all that it started."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def close(self) -> None:
        """Kill it and close its connection."""
        self.kill()
        self.connection.close()
        self.output.close()

    def _end(
        self, code: int, answer: bytes = b"", peak: int = 0, last: bool = True
    ) -> End:
        printed = self._lines()
        fault = ""
        if code < 0:
            known = [number.name for number in signal.Signals if number == -code]
            name = known[0] if known else f"signal {-code}"
            most = f", peak memory {peak / 2**30:.2f} GiB" if peak else ""
            fault = f"killed: {name}{most}"
        elif code != UNWRITTEN and (code or not answer):
            words = "".join(f": {line}" for line in printed[-1:])
            fault = f"exit: code {code} without an answer{words}"
        return End(fault, answer, printed, peak, last)

    def _lines(self) -> tuple[str, ...]:
        """Return the last lines that were printed."""
        self.listen()
        text = self._printed.decode(errors="replace")
        return tuple(one_line(line) for line in text.splitlines()[-20:])


class Pool:
    """Worker processes of this machine."""

    def __init__(self, work: Work, path: list[str] | None = None) -> None:
        self.most = work.workers
        self._begin = work, search_path() if path is None else path
        self._workers: list[Worker] = []

    def start(self) -> Worker:
        """Return a new worker."""
        self._workers.append(worker := Worker(*self._begin))
        return worker

    def messages(self, seconds: float) -> Iterator[tuple[Worker, int | End]]:
        """Yield units of work that are done and ends of cells, each with its worker.

        It waits at most so many seconds for the first.
        """
        places: dict[Any, Worker] = {}
        for worker in self._workers:
            places |= {worker.connection: worker, worker.output: worker}
        for place in wait(places, seconds):
            worker = places[place]
            if worker not in self._workers:
                continue  # it was ended a moment ago
            if place is worker.output:
                worker.listen()
            else:
                yield worker, worker.receive()
        for worker in self._workers.copy():
            if (end := worker.overdue()) is not None:
                yield worker, end

    def end(self, worker: Worker) -> None:
        """Kill a worker."""
        self._workers.remove(worker)
        worker.close()

    def close(self) -> None:
        """Kill all workers."""
        for worker in self._workers.copy():
            self.end(worker)
