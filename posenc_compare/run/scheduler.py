"""The scheduler: cells to worker processes, answers to records.

A scheme may raise, hang, exit or crash: its cell alone is lost. A measure that times
something runs alone, once all others are done. This process alone writes records.
"""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from posenc_compare.errors import StoreError
from posenc_compare.records.cells import Cell, plugins_of
from posenc_compare.records.record import Facts, Record
from posenc_compare.records.sanitize import one_line
from posenc_compare.records.store import Store
from posenc_compare.registry import MEASURES, order_of
from posenc_compare.run.cluster import UNPLACED, Cluster
from posenc_compare.run.plan import missing
from posenc_compare.run.workers import End, Pool
from posenc_compare.settings.canonical import Body, parse_strictly
from posenc_compare.settings.table import Work

# Of one cell, by its loss.
STARTS = {"killed": 3, UNPLACED: 3, "exit": 3, "oom": 2, "timeout": 1}
MOST_UNPLACED = 10  # starts of one cell on nodes that were gone
LOOK = 1.0  # seconds between two looks at the folder
GRACE = 12.0  # seconds to save what is under way, once asked to stop
PLANNED = ("spec", "label", "family", "source")  # of a record, before it is computed
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
STOPPED = "killed: another process asked it to stop"


News = Literal["started", "progress", "finished", "failed", "reused", "note"]


@dataclass
class Job:
    """A cell that waits or is computed."""

    cell: Cell
    blank: Record  # as planned, with nothing in it yet
    starts: int = 0
    unplaced: int = 0  # starts on a node that was gone
    done: int = 0  # units of its work

    @property
    def alone(self) -> bool:
        """Return whether no other cell may be computed meanwhile."""
        return bool(MEASURES.entry(self.cell.measure).facts.get("exclusive"))


@dataclass(frozen=True)
class Event:
    """News of a comparison that is computed; printed, it is one line.

    A cell starts in a worker, makes progress, and has a record when it is finished or
    failed. If its worker is lost it starts again. A cell that has a record already, in
    this folder or another one, or by another run meanwhile, is reused.

    Attributes:
        done: cells that have their record.
        cells: that were missing.
        units: of work done.
        work: units of all cells that were missing.
        kind: started, progress, finished, failed or reused, of one cell; or note.
        key: of the record of the cell, if the news is of one.
        what: measure and scheme that were worked on, if any were.
        record: that was just written, if one was.
        note: a line for the user.
        refused: whether it says that the code of a cell is not as it was planned.
    """

    done: int
    cells: int
    units: int
    work: int
    kind: News = "note"
    key: str = ""
    what: str = ""
    record: Record | None = None
    note: str = ""
    refused: bool = False

    def __str__(self) -> str:
        """Return the note, or how far the comparison is."""
        return self.note or f"{self.done}/{self.cells} {self.what}"


Listener = Callable[[Event], Any]


class Scheduler:
    """One run over missing cells.

    Cells are computed in the given order. Other runs may write to the same store.
    """

    def __init__(
        self,
        cells: Collection[Cell],
        store: Store,
        pool: Pool | Cluster,
        work: Work,
        listen: Listener = lambda event: None,
    ) -> None:
        self.store = store
        self.pool = pool
        self.work = work
        self.listen = listen
        jobs = [Job(cell, cell.record()) for cell in cells]
        self.waiting = deque(sorted(jobs, key=lambda job: job.alone))
        self.workers: dict[Any, Job | None] = {}  # those of the pool
        self.stopped_by = ""
        self._refused: set[str] = set()  # what was said of cells
        self._cells = len(cells)
        self._units_of_all = sum(cell.setting.work for cell in cells)
        self._done = self._units = 0
        self._asked: deque[int] = deque()  # signals that nobody has acted on
        self._deadline = float("inf")
        self._looked = time.monotonic()

    def tell(self, note: str, refused: bool = False) -> None:
        """Pass on a line for the user."""
        self.listen(Event(*self._counts, note=note, refused=refused))

    def tell_of(self, kind: News, cell: Record, new: Record | None = None) -> None:
        """Pass on news of a cell, as planned, with its new record."""
        what = f"{cell.measured} {cell.label}"
        self.listen(Event(*self._counts, kind, cell.key, what, new))

    @property
    def _counts(self) -> tuple[int, int, int, int]:
        return self._done, self._cells, self._units, self._units_of_all

    def run(self) -> str:
        """Compute until all is done or the run is asked to stop.

        Returns:
            What stopped it: the name of a signal, `fail_fast`, or nothing.
        """
        with self._signals():
            try:
                while self._assign():
                    for worker, message in self.pool.messages(0.1):
                        self._hear(worker, message)
                    self._look_after()
                    self._obey()
            finally:
                for worker in list(self.workers):
                    self._end(worker)
        return self.stopped_by

    def _obey(self) -> None:
        """Act on the signals that have come; a handler may come amid anything."""
        while self._asked:
            number = signal.Signals(self._asked.popleft())
            twice = self.stopped_by == signal.SIGINT.name and number == signal.SIGINT
            self._stop(number.name, 0 if twice else GRACE)

    def _stop(self, reason: str, grace: float) -> None:
        """Begin no cell, and let those under way save what they have."""
        self.stopped_by = self.stopped_by or reason
        self._deadline = min(self._deadline, time.monotonic() + grace)
        for worker in self.workers:
            worker.send({"stop": True})

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def caught(number: int, _: object) -> None:
            self._asked.append(number)

        # Only the main thread is told of signals; elsewhere a run cannot be stopped.
        main = threading.current_thread() is threading.main_thread()
        numbers = SIGNALS if main else ()
        before = {number: signal.signal(number, caught) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _assign(self) -> bool:
        """Give every idle worker a cell; return whether anything is under way."""
        idle = [worker for worker, job in self.workers.items() if job is None]
        while idle or len(self.workers) < self.pool.most:
            if (job := self._next()) is None:
                break
            try:
                worker = idle.pop() if idle else self.pool.start()
            except OSError as error:
                self.waiting.appendleft(job)
                if self.workers:
                    break  # the machine has room for no more
                raise StoreError(
                    f"a worker must be able to start, got {error}"
                ) from error
            job.starts += 1
            self.workers[worker] = job
            worker.send(self._request(job))
            self.tell_of("started", job.blank)
        for worker in idle:
            self._end(worker)
        return bool(self.workers)

    def _next(self) -> Job | None:
        """Return the next cell, if it may be computed beside those under way."""
        under_way = [job for job in self.workers.values() if job]
        while self.waiting and not self.stopped_by:
            job = self.waiting[0]
            if under_way and (job.alone or any(other.alone for other in under_way)):
                return None
            self.waiting.popleft()
            if missing([job.cell], self.store, self.work.statuses()):
                return job
            self._advance(job, job.cell.setting.work)  # another run has computed it
            self.tell_of("reused", job.blank)
        return None

    def _request(self, job: Job) -> Body:
        setting = job.cell.setting
        folder = self.store.checkpoints.resolve() / job.blank.key
        plugins = {
            (module, str(path.resolve()), entry.origin)
            for entry in plugins_of(job.cell)
            for module, path in [entry.given]
        }
        return {
            "spec": job.blank.spec.to_json(),
            "key": job.blank.key,
            "plugins": sorted(plugins, key=lambda one: (order_of(one[0]), one)),
            "places": setting.places,
            "reads_corpus": setting.reads_corpus,
            "checkpoints": str(folder) if setting.resumes else "",
            "interval": self.work.checkpoint_every,
        }

    def _hear(self, worker: Any, message: int | End) -> None:
        """Act on progress of a cell, or on its end."""
        if worker not in self.workers:
            return  # it was ended a moment ago
        job = self.workers[worker]
        if isinstance(message, End):
            self.workers[worker] = None
            if message.last:
                self._end(worker)
            if job is not None:
                self._finish(job, message)
        elif job is not None:
            self._advance(job, message)

    def _advance(self, job: Job, done: int) -> None:
        """Count progress; a cell that began again must first catch up."""
        more = max(0, done - job.done)
        job.done += more
        self._units += more
        self.tell_of("progress", job.blank)

    def _finish(self, job: Job, end: End) -> None:
        """Publish the record of a cell, or begin it again."""
        if end.fault:
            self._lose(job, self._fault(job, "lost", end.fault, end))
            return
        answer: Any = end.answer[:200]
        with suppress(ValueError, RecursionError):
            answer = parse_strictly(end.answer)
        match answer:
            case {"record": {**body}}:
                self._take(job, body, end)
            case {"stopped": True}:
                if not self.stopped_by:  # somebody else has asked it to
                    self._lose(job, self._fault(job, "lost", STOPPED, end))
            case {"store": str(error)}:
                raise StoreError(one_line(error))
            case {"refused": str(reason)}:
                self._refuse(job, one_line(reason))
            case _:
                error = f"protocol: unexpected answer {answer}"
                self._publish(job, self._fault(job, "failed", error, end))

    def _take(self, job: Job, body: Body, end: End) -> None:
        """Publish a record that any reader can read, under the planned cell."""
        try:
            planned = job.blank.to_json()
            body |= {"key": job.blank.key, **{name: planned[name] for name in PLANNED}}
            record = Record.from_json(body)
            if not record.provenance:
                raise ValueError("it does not say where it was made")
            made = {**record.provenance, "attempts": job.starts}
            record = replace(record, provenance=made)
            if not self.store.fits(record.to_json()):
                raise ValueError("the record is too long to be read")
        except ValueError as error:
            record = self._fault(job, "failed", f"protocol: {error}", end)
        if record.status == "lost":
            self._lose(job, record)
        else:
            self._publish(job, record)

    def _refuse(self, job: Job, reason: str) -> None:
        """Leave a cell without a record: its code is not what was planned."""
        self._advance(job, job.cell.setting.work)
        if reason not in self._refused:
            self._refused.add(reason)
            self.tell(reason, refused=True)

    def _look_after(self) -> None:
        """Notice that the folder is gone, or that the time to stop is over."""
        if time.monotonic() - self._looked > LOOK:
            self.store.check()
            self._looked = time.monotonic()
        if time.monotonic() > self._deadline:
            for worker in list(self.workers):
                self._end(worker)

    def _lose(self, job: Job, record: Record) -> None:
        """Begin a cell again in a fresh process, or publish that it is lost."""
        fault = record.error.partition(":")[0]
        if fault == UNPLACED and job.unplaced < MOST_UNPLACED:
            job.unplaced += 1
            job.starts -= 1  # no worker has seen it
        if job.starts < STARTS.get(fault, 1):
            self.waiting.appendleft(job)
        else:
            self._publish(job, record)

    def _publish(self, job: Job, record: Record) -> None:
        self.store.write(record.to_json())
        self.store.forget_checkpoints(job.blank.key)
        self._advance(job, job.cell.setting.work)
        self._done += 1
        failed = record.status in ("failed", "lost")
        self.tell_of("failed" if failed else "finished", job.blank, record)
        if self.work.fail_fast and failed:
            self._stop("fail_fast", GRACE)

    def _fault(self, job: Job, status: str, error: str, end: End) -> Record:
        """Return the record of a cell that gave none."""
        facts: Facts = {
            "attempts": job.starts,
            "timeout_seconds": self.work.timeout,
            "peak_memory_bytes": end.peak_memory,
        }
        return replace(
            job.blank,
            status=status,
            error=one_line(error),
            trace=end.printed,
            provenance=facts,
        )

    def _end(self, worker: Any) -> None:
        del self.workers[worker]
        self.pool.end(worker)
