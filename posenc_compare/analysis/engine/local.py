"""Workers as the scheduler sees them: processes, their pipes and their clocks."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO

from posenc_compare.analysis.core.canonical import Body, parse_strictly
from posenc_compare.analysis.core.sanitize import one_line
from posenc_compare.analysis.engine.worker import PROTOCOL
from posenc_compare.analysis.engine.workers import Group, Start
from posenc_compare.analysis.records.store import LIMIT
from posenc_compare.errors import StoreError
from posenc_compare.fresh import python

START = 120.0  # seconds that a worker may take until it is ready
MUTE = 1.0  # seconds that a process may live on without its pipe
TAIL = 2000  # bytes kept of what a scheme prints
CHUNK = 1 << 16
# A worker's C library keeps memory that was freed: asking the system for 32 MiB again
# costs as much as copying it eight times. What the user sets goes before it.
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
}
# cuBLAS adds in one order with a workspace of its own; torch asks for this to be said.
SAME_SUMS = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
SERVE = "from posenc_compare.analysis.engine.worker import main; main()"


class WorkerProcess:
    """A process that computes cells of one group, in a process group of its own.

    It runs the source that it is given, whatever the files hold by then.

    Args:
        group: what its cells share.
        start: what it begins with.

    Attributes:
        descriptors: to wait on, answers first.
        peak_memory: bytes, known once it has ended.

    Raises:
        StoreError: if the source cannot be handed over.
        OSError: if no process can be started.
    """

    def __init__(self, group: Group, start: Start) -> None:
        self.group = group
        self.peak_memory = 0
        answers, theirs = os.pipe()
        same_sums = SAME_SUMS if start.deterministic else {}
        with _handed_over(start.source) as source:
            self.process = subprocess.Popen(
                python(SERVE, str(theirs), str(source.fileno())),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs, source.fileno()),
                start_new_session=True,
                env=KEEP_MEMORY | same_sums | os.environ,
            )
        os.close(theirs)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.descriptors = (answers, self.process.stdout.fileno())
        for descriptor in self.descriptors:
            os.set_blocking(descriptor, False)
        self._heard = self._printed = b""
        self._muted = float("inf")
        self._spent, self._looked, self._ready = 0.0, time.monotonic(), False
        given = asdict(start)
        del given["source"]
        self.send(given)

    def send(self, request: Body) -> None:
        """Send one request; that the process has died shows elsewhere."""
        assert self.process.stdin is not None
        self._spent = 0.0
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()

    def receive(self, descriptor: int) -> tuple[list[object], bool]:
        """Return the messages that have come, and whether more can follow.

        A line that is no JSON text is returned as it is.
        """
        data = self._read(descriptor)
        if data == b"" and descriptor == self.descriptors[0]:
            self._muted = time.monotonic()
        return self._take(descriptor, data or b""), data != b""

    def drain(self) -> list[object]:
        """Return the messages that were still under way."""
        return [m for place in self.descriptors for m in self._rest(place)]

    def _rest(self, descriptor: int) -> list[object]:
        messages = []
        for _ in range(2 * LIMIT // CHUNK):
            if not (data := self._read(descriptor)):
                break
            messages += self._take(descriptor, data)
        return messages

    def _read(self, descriptor: int) -> bytes | None:
        """Return what is there: None for nothing yet, nothing at the end."""
        try:
            return os.read(descriptor, CHUNK)
        except BlockingIOError:
            return None

    def _take(self, descriptor: int, data: bytes) -> list[object]:
        if descriptor != self.descriptors[0]:
            self._printed = (self._printed + data)[-TAIL:]
            return []
        *lines, self._heard = (self._heard + data).split(b"\n")
        if len(self._heard) > LIMIT:
            lines, self._heard = [b"an answer without an end"], b""
        messages = [_parse(line) for line in lines]
        if messages:
            self._spent = 0.0
        if not self._ready and {"ready": True} in messages:
            messages.remove({"ready": True})  # said once; a second time is unexpected
            self._ready = True
        return messages

    def fault(self, timeout: float) -> str:
        """Return why nothing more is to be expected of this worker, or nothing.

        Time counts in small steps, so that a pause of the whole machine, or of this
        process, takes nothing from it. A worker that is paused alone does hang.
        """
        now = time.monotonic()
        self._spent += min(now - self._looked, 1.0)
        self._looked = now
        if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return self._loss()
        if now - self._muted > MUTE:
            return "protocol: it closed the pipe of its answers"
        if self._spent > (timeout if self._ready else max(timeout, START)):
            return f"timeout: no progress in {timeout:g} s"
        return ""

    def _loss(self) -> str:
        self.kill()
        code = self.process.returncode
        if code == PROTOCOL:
            return "protocol: its answer could not be given"
        if code < 0:
            known = [number.name for number in signal.Signals if number == -code]
            name = known[0] if known else f"signal {-code}"
            peak = f"{self.peak_memory / 2**30:.2f} GiB"
            return f"killed: {name}, peak memory {peak}"
        self._rest(self.descriptors[1])
        last = "".join(f": {line}" for line in self.printed()[-1:])
        return f"exit: code {code} without an answer{last}"

    def printed(self) -> list[str]:
        """Return the last lines that were printed."""
        text = self._printed.decode(errors="replace")
        return [one_line(line) for line in text.splitlines()[-20:]]

    def kill(self) -> None:
        """End the process and all that it started."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            _, status, usage = os.wait4(self.process.pid, 0)
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.peak_memory = usage.ru_maxrss * 1024

    def close(self) -> None:
        """Kill it and close the pipes."""
        self.kill()
        os.close(self.descriptors[0])
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Pool:
    """Worker processes of this machine, heard together.

    Args:
        most: workers that compute at the same time.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._selector = selectors.DefaultSelector()

    def start(self, group: Group, start: Start) -> WorkerProcess:
        """Return a new worker; arguments and errors are those of `Workers.start`."""
        worker = WorkerProcess(group, start)
        for descriptor in worker.descriptors:
            self._selector.register(descriptor, selectors.EVENT_READ, worker)
        return worker

    def messages(self, seconds: float) -> Iterator[tuple[WorkerProcess, object]]:
        """Yield what workers say, each with its worker; wait so long for the first."""
        for event, _ in self._selector.select(seconds):
            if event.fd not in self._selector.get_map():
                continue  # its worker was ended for what was read a moment ago
            messages, more = event.data.receive(event.fd)
            if not more:
                self._selector.unregister(event.fd)
            for message in messages:
                yield event.data, message

    def end(self, worker: WorkerProcess) -> None:
        """Kill a worker and hear it no more."""
        for descriptor in worker.descriptors:
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        worker.close()

    def close(self) -> None:
        """Free what listening took; every worker has ended."""
        self._selector.close()


def _handed_over(source: bytes) -> IO[bytes]:
    """Return an open file from which a worker reads all source that was read here."""
    try:
        file = tempfile.TemporaryFile()
        file.write(source)
        file.seek(0)
    except OSError as error:
        raise StoreError(
            f"{tempfile.gettempdir()}: must take a temporary file, got {error}"
        ) from error
    return file


def _parse(line: bytes) -> object:
    try:
        return parse_strictly(line)
    except (ValueError, RecursionError):
        return repr(line[:200])
