"""Where the workers of a run are: on this machine, or on the nodes of a Ray cluster.

An actor of Ray holds the place of each on a node, starts our worker process there, and
passes its lines on. So cells have the limits they have on one machine, and the process
that asked for them alone writes records. What is lost with a node begins again.
"""

import contextlib
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from posenc_compare.errors import ConfigError
from posenc_compare.fresh import search_path
from posenc_compare.records.cells import Cell
from posenc_compare.records.sanitize import one_line
from posenc_compare.run.workers import End, Pool
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.table import Work
from posenc_compare.validate import import_extra

ANSWER = 10.0  # seconds that a cluster may take to answer
UNPLACED = "unplaced"  # of a cell whose node was gone before it began
LISTEN = 0.2  # seconds that an actor waits for news of its worker


def workers_of(work: Work, cells: Iterable[Cell]) -> "Pool | Cluster":
    """Return the workers that cells are computed by."""
    if work.engine == "local":
        return Pool(work)
    on_gpu = any(cell.setting.device != "cpu" for cell in cells)
    return Cluster(work, work.gpu_share if on_gpu else 0.0)


class Host:
    """The actor: it runs a worker process on its node."""

    def __init__(self, work: Work, path: list[str]) -> None:
        self._pool = Pool(work, path)
        self._worker = self._pool.start()

    def send(self, request: Body) -> None:
        """Pass a request on; checkpoints need the folder of the run."""
        place = request.get("checkpoints")
        if place and not Path(place).parents[1].is_dir():
            request["checkpoints"] = ""
        self._worker.send(request)

    def hear(self) -> list[int | End]:
        """Return the news of the worker since the last time."""
        return [message for _, message in self._pool.messages(LISTEN)]


class ClusterWorker:
    """A worker on another machine.

    `placed` states whether its actor has answered from a node.
    """

    def __init__(self, host: Any) -> None:
        self.host = host
        self.placed = False

    def send(self, request: Body) -> None:
        """Send one request; a node that is gone is noticed elsewhere."""
        self.host.send.remote(request)


class Cluster:
    """The workers of a Ray cluster.

    Args:
        work: how cells are computed; without an address, the cluster is that of
            RAY_ADDRESS, or one that is started on this machine, and without a number
            of workers, as many compute at the same time as have room.
        gpus: for one worker; a fraction shares a GPU.
    """

    def __init__(self, work: Work, gpus: float) -> None:
        self._ray: Any = import_extra("ray", "ray", "engine")
        self._begin = work, search_path()
        address, threads = work.address, work.threads
        self._own = not self._ray.is_initialized()
        try:
            _knock(address)
            if self._own:
                self._ray.init(
                    address or None, log_to_driver=False, logging_level="error"
                )
            room = sum(_room(node, threads, gpus) for node in self._ray.nodes())
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"address must be that of a Ray cluster that answers, got {address!r}: "
                f"{one_line(str(error))[:200]}; `ray start --head` starts one"
            ) from error
        if not room:
            self.close()
            raise ConfigError(
                f"a node of the Ray cluster must have {threads} cores and {gpus:g} "
                f"GPUs, and none has; smaller `threads`"
                f"{' or `--set gpu_share=0.5`' if gpus else ''} would work"
            )
        self.most = min(work.workers or room, room)
        remote = self._ray.remote(Host)
        self._hosts = remote.options(
            num_cpus=threads,
            num_gpus=gpus,
            max_restarts=0,  # the scheduler alone counts how often a cell begins
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        self._asked: dict[Any, ClusterWorker] = {}  # by what will be heard

    def start(self) -> ClusterWorker:
        """Return a new worker."""
        worker = ClusterWorker(self._hosts.remote(*self._begin))
        self._listen(worker)
        return worker

    def messages(self, seconds: float) -> Iterator[tuple[ClusterWorker, int | End]]:
        """Yield units of work that are done and ends of cells, each with its worker.

        It waits at most so many seconds for the first.
        """
        asked = list(self._asked)
        ready, _ = self._ray.wait(asked, timeout=seconds) if asked else ([], [])
        for answer in ready:
            worker = self._asked.pop(answer)
            heard = self._heard(answer, worker)
            if not any(isinstance(m, End) and m.last for m in heard):
                self._listen(worker)
            for message in heard:
                yield worker, message

    def end(self, worker: ClusterWorker) -> None:
        """Kill a worker and hear it no more."""
        self._asked = {a: w for a, w in self._asked.items() if w is not worker}
        with contextlib.suppress(ValueError):  # of an actor that never began
            self._ray.kill(worker.host)

    def close(self) -> None:
        """Leave the cluster, if this run has joined it."""
        if self._own:
            self._ray.shutdown()

    def _listen(self, worker: ClusterWorker) -> None:
        self._asked[worker.host.hear.remote()] = worker

    def _heard(self, answer: Any, worker: ClusterWorker) -> list[int | End]:
        """Return what an actor answers, or that it will not any more."""
        errors = self._ray.exceptions
        try:
            heard = self._ray.get(answer)
        except errors.OutOfMemoryError as error:
            return [End(f"oom: {one_line(str(error))[:200]}")]
        except errors.RayTaskError as error:  # its node cannot start a worker
            return [End(f"exit: {one_line(str(error.cause))[:200]}")]
        except errors.RayError as error:
            kind = "killed" if worker.placed else UNPLACED
            return [End(f"{kind}: its place on a node is gone, {type(error).__name__}")]
        worker.placed = True
        return heard


def _knock(address: str) -> None:
    """Try a port, since Ray itself tries for minutes and says so on every line."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()


def _room(node: Body, threads: int, gpus: float) -> int:
    """Return how many workers a node has room for."""
    has = node["Resources"] if node["Alive"] else {}
    by_cores = int(has.get("CPU", 0) // threads)
    if not gpus:
        return by_cores
    whole = int(has.get("GPU", 0))
    at_once = int(1 / gpus + 1e-9)  # of one GPU, which no share reaches beyond
    return min(by_cores, whole * at_once if at_once else int(whole // gpus))
