"""The scheduler: cells to worker processes, answers to records.

A scheme may raise, hang, exit or crash: its worker dies alone and the others go on.
Each worker runs cells of the same origins, so that no plugin meets another, nor a
built-in cell; a scheme around that of a plugin has the plugin's origin. Two schemes of
one plugin have workers of their own. A measure that
times something runs alone, once all others are done. This process imports neither
torch nor a plugin, and alone writes records.
"""

import secrets
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posenc_compare.analysis.core.canonical import Body, canonical
from posenc_compare.analysis.core.sanitize import one_line
from posenc_compare.analysis.engine.plan import missing
from posenc_compare.analysis.engine.workers import (
    UNPLACED,
    Group,
    Limits,
    Worker,
    Workers,
    start_of,
)
from posenc_compare.analysis.records.cells import Cell, entries_of, modules
from posenc_compare.analysis.records.record import Facts, Provenance, Record
from posenc_compare.analysis.records.store import Store
from posenc_compare.errors import StoreError
from posenc_compare.registry import MEASURES, SCHEMES, Entry
from posenc_compare.sources import OURS

# Of one cell, by its loss.
STARTS = {
    "killed": 3,
    UNPLACED: 3,
    "exit": 3,
    "mismatch": 3,
    "protocol": 3,
    "store": 3,
    "oom": 2,
    "timeout": 1,
}
MOST_UNPLACED = 10  # of one cell
LOOK = 1.0  # seconds between two looks at the folder
GRACE = {signal.SIGINT: 8.0}  # seconds to save what is under way, once asked to stop
OTHER_GRACE = 15.0  # a scheduler kills what is left after 30
PLANNED = ("spec", "label", "family", "source")  # of a record, before it is computed
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@dataclass
class Job:
    """A cell that waits or is computed."""

    key: str
    cell: Cell
    blank: Record  # as planned, with nothing in it yet
    starts: int = 0
    unplaced: int = 0  # starts on a node that was gone
    token: str = ""
    done: int = 0  # units of its work
    first: bool = False  # whether its worker has computed no other cell
    suspect: bool = False  # whether it must be the first of its next worker

    @property
    def group(self) -> Group:
        """Return what this cell must share with those of its worker."""
        plugins = [e for e in entries_of(self.cell) if _of_plugin(e)]
        origins = sorted({entry.origin for entry in plugins})
        schemes = sorted(
            n for n in self.cell.variant.schemes if _of_plugin(SCHEMES.entry(n))
        )
        alone = MEASURES.entry(self.cell.measure).facts.get("exclusive", False)
        return Group(tuple(origins), alone, tuple(schemes))


class Scheduler:
    """One run over missing cells.

    Args:
        cells: by key, what is to be computed, in this order.
        store: where records go; other runs may write there too.
        plugins: as given on the command line.
        limits: what the run may use.
        retry: statuses of records that another run's record does not settle.
        progress: called with a cell and the units of its work just done.
        report: called with each record once it is written.
        pool: where workers are started.
    """

    def __init__(
        self,
        cells: dict[str, Cell],
        store: Store,
        plugins: list[str],
        limits: Limits,
        retry: tuple[str, ...],
        progress: Callable[[Cell, int], None],
        report: Callable[[Record], None],
        pool: Workers[Any],
    ) -> None:
        self.store = store
        self.plugins = plugins
        self.limits = limits
        self.retry = retry
        self.progress = progress
        self.report = report
        self.waiting: dict[Group, deque[Job]] = {}
        self.modules: dict[Group, dict[str, Path]] = {}
        for key, cell in cells.items():
            job = Job(key, cell, cell.record())
            self.waiting.setdefault(job.group, deque()).append(job)
            known = self.modules.setdefault(job.group, {})
            known |= modules(cell)
        self.workers: dict[Worker, Job | None] = {}
        self.pool = pool
        self.stopped_by = ""
        self._run = secrets.token_hex(16)  # tells its checkpoints from others'
        self._asked: deque[int] = deque()  # signals that nobody has acted on
        self._deadline = float("inf")
        self._looked = time.monotonic()

    def run(self) -> str:
        """Compute until all is done or the run is asked to stop.

        Returns:
            What stopped it: the name of a signal, `fail_fast`, or nothing.

        Raises:
            StoreError: if the folder of records cannot be used any more.
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

    def stop(self, reason: str, grace: float) -> None:
        """Begin no cell, and let those under way save what they have."""
        self.stopped_by = self.stopped_by or reason
        self._deadline = min(self._deadline, time.monotonic() + grace)
        for worker in self.workers:
            worker.send({"stop": True})

    def _obey(self) -> None:
        """Act on the signals that have come; a handler may come amid anything."""
        while self._asked:
            number = signal.Signals(self._asked.popleft())
            twice = self.stopped_by == signal.SIGINT.name and number == signal.SIGINT
            self.stop(number.name, 0 if twice else GRACE.get(number, OTHER_GRACE))

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
        for worker, job in list(self.workers.items()):
            if job is None and not self._give(worker):
                self._end(worker)
        while not self.stopped_by and len(self.workers) < self.pool.most:
            group = self._next_group()
            worker = group and self._started(group)
            if worker is None:
                break
            self.workers[worker] = None
            if not self._give(worker, first=True):
                self._end(worker)
        return bool(self.workers)

    def _next_group(self) -> Group | None:
        """Return the group that lacks a worker most; none if none may begin now."""
        there = [worker.group for worker in self.workers]
        wanted = [group for group, jobs in self.waiting.items() if jobs]
        together = [group for group in wanted if not group.alone]
        if any(group.alone for group in there) or (there and not together):
            return None
        return min(together or wanted, key=there.count, default=None)

    def _started(self, group: Group) -> Worker | None:
        """Return a new worker; none if the machine has room for no more of them."""
        try:
            start = start_of(self.modules[group], self.plugins, self.limits)
            return self.pool.start(group, start)
        except OSError as error:
            if self.workers:
                return None
            raise StoreError(f"a worker must be able to start, got {error}") from error

    def _give(self, worker: Worker, *, first: bool = False) -> bool:
        """Send the next cell of the worker's group; return whether there was one."""
        jobs = self.waiting[worker.group]
        while jobs and not self.stopped_by:
            if jobs[0].suspect and not first:
                return False
            job = jobs.popleft()
            if not missing([job.cell], self.store, self.retry):  # by another run
                self.progress(job.cell, job.cell.setting.work - job.done)
                continue
            job.starts += 1
            job.first = first
            job.token = secrets.token_hex(16)
            self.workers[worker] = job
            worker.send(self._request(job))
            return True
        return False

    def _request(self, job: Job) -> Body:
        setting = job.cell.setting
        folder = self.store.checkpoints.resolve() / job.key
        return {
            "token": job.token,
            "spec": job.blank.spec.to_json(),
            "run": self._run,
            "places": setting.places,
            "checkpoints": str(folder) if setting.resumes else "",
            "interval": self.limits.interval,
        }

    def _hear(self, worker: Worker, message: object) -> None:
        """Act on one line of a worker: an answer to the cell it has, or a fault."""
        job = self.workers.get(worker)
        if job is None:
            return
        match message:
            case {"token": job.token, "progress": int(done)}:
                # A cell that began again is not further until it has caught up.
                self.progress(job.cell, max(0, done - job.done))
                job.done = max(done, job.done)
            case {"token": job.token, "body": {**body}, "last": bool(last)}:
                self._take(worker, job, body, last)
            case {"token": job.token, "stopped": True} if self.stopped_by:
                self._end(worker)
            case {"token": job.token, "store": str(error), "size": int(size)}:
                self._end(worker)
                self.store.check(max(1, size))  # it may be the scheme that says so
                self._lose(job, self._fault(job, "lost", f"store: {error}", worker))
            case _:
                self._fail(worker, job, f"protocol: unexpected answer {message}")

    def _take(self, worker: Worker, job: Job, body: Body, last: bool) -> None:
        """Publish an answer that any reader can read, made with the code planned."""
        try:
            record = _readable(body, job)
            if not self.store.fits(record.to_json()):
                raise ValueError("the record is too long to be read")
        except ValueError as error:
            self._fail(worker, job, f"protocol: {error}")
            return
        planned = job.blank.to_json()
        if any(canonical(body[name]) != canonical(planned[name]) for name in PLANNED):
            self._end(worker)
            what = "mismatch: it was computed with other code than planned"
            self._lose(job, self._fault(job, "lost", what, worker))
        elif record.status == "lost":
            self._end(worker)
            self._lose(job, record)
        else:
            self.workers[worker] = None
            if last:
                self._end(worker)
            self._publish(job, record)

    def _fail(self, worker: Worker, job: Job, why: str) -> None:
        """End a worker that does not answer as a worker does, and say so.

        What an earlier cell of the worker left behind may have answered: the cell
        begins again in a fresh one, where the fault is its own.
        """
        self._end(worker)
        if job.first:
            self._publish(job, self._fault(job, "failed", why, worker))
        else:
            job.suspect = True
            self._lose(job, self._fault(job, "lost", why, worker))

    def _look_after(self) -> None:
        """Notice a lost folder, and workers that died, hang, or had time to stop."""
        if time.monotonic() - self._looked > LOOK:
            self.store.check()
            self._looked = time.monotonic()
        overdue = time.monotonic() > self._deadline
        for worker in list(self.workers):
            why = worker.fault(self.limits.timeout)
            if not why and not overdue:
                continue
            for message in worker.drain():
                self._hear(worker, message)
            job = self.workers.get(worker)
            self._end(worker)
            if job is None or overdue:
                continue
            if why.startswith("protocol"):
                self._fail(worker, job, why)
            else:
                self._lose(job, self._fault(job, "lost", why, worker))

    def _lose(self, job: Job, record: Record) -> None:
        """Try a cell again in a fresh process, or say that it is lost."""
        fault = record.error.partition(":")[0]
        if fault == UNPLACED and job.unplaced < MOST_UNPLACED:
            job.unplaced += 1
            job.starts -= 1  # no worker has seen it
        if job.starts < STARTS.get(fault, 1):
            self.waiting[job.group].appendleft(job)
        else:
            self._publish(job, record)

    def _publish(self, job: Job, record: Record) -> None:
        self.store.write(record.to_json())
        self.store.forget_checkpoints(job.key)
        self.progress(job.cell, job.cell.setting.work - job.done)
        self.report(record)
        if self.limits.fail_fast and record.status in ("failed", "lost"):
            self.stop("fail_fast", OTHER_GRACE)

    def _fault(self, job: Job, status: str, error: str, worker: Worker) -> Record:
        """Return the record of a cell whose worker gave none."""
        facts: Facts = {
            "attempts": job.starts,
            "timeout_seconds": self.limits.timeout,
            "peak_memory_bytes": worker.peak_memory,
        }
        return replace(
            job.blank,
            status=status,
            error=one_line(error),
            trace=tuple(worker.printed()),
            provenance=Provenance(facts),
        )

    def _end(self, worker: Worker) -> None:
        if worker in self.workers:
            del self.workers[worker]
            self.pool.end(worker)


def _of_plugin(entry: Entry) -> bool:
    return not entry.module.startswith(f"{OURS}.")


def _readable(body: Body, job: Job) -> Record:
    """Return the record in an answer.

    Raises:
        ValueError: if no reader could read it.
    """
    record = Record.from_json({**body, "key": job.key})
    if not record.provenance.facts:
        raise ValueError("it does not say where it was made")
    made = record.provenance.with_facts(attempts=job.starts)
    return replace(record, provenance=made)
