"""Workers on the nodes of a Ray cluster.

An actor of Ray holds the place of each on a node, starts our worker process there, and
passes its lines on. So cells have the limits they have on one machine, and the process
that asked for them alone writes records. What is lost with a node begins again.
"""

import contextlib
import importlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc_compare.analysis.core.canonical import Body
from posenc_compare.analysis.core.sanitize import one_line
from posenc_compare.analysis.engine.local import Pool
from posenc_compare.analysis.engine.workers import UNPLACED, Group, Start
from posenc_compare.errors import ConfigError

ANSWER = 10.0  # seconds that a cluster may take to answer
LISTEN = 0.2  # seconds that an actor waits for a line before it says what it has


@dataclass(frozen=True)
class Heard:
    """What an actor says of its worker.

    Attributes:
        messages: that have come since it was last asked.
        fault: why nothing more will come, or nothing.
        printed: the last lines that were printed, once there is a fault.
        peak_memory: bytes, once there is a fault.
    """

    messages: list[object]
    fault: str
    printed: list[str]
    peak_memory: int


class Host:
    """The actor: it runs a worker process on its node.

    Args:
        group: what the worker's cells share.
        start: what it begins with.
        timeout: seconds that a cell may go on without progress.
    """

    def __init__(self, group: Group, start: Start, timeout: float) -> None:
        self._pool = Pool(1)
        self._worker = self._pool.start(group, start)
        self._timeout = timeout

    def send(self, request: Body) -> None:
        """Pass a request on; checkpoints need the folder of the run."""
        place = request.get("checkpoints")
        if place and not Path(place).parents[1].is_dir():
            request["checkpoints"] = ""
        self._worker.send(request)

    def hear(self) -> Heard:
        """Return what the worker has said since the last time."""
        messages = [message for _, message in self._pool.messages(LISTEN)]
        fault = self._worker.fault(self._timeout)
        if not fault:
            return Heard(messages, "", [], 0)
        messages += self._worker.drain()
        self._worker.kill()
        printed = self._worker.printed()
        return Heard(messages, fault, printed, self._worker.peak_memory)


class ClusterWorker:
    """A worker on another machine, as the scheduler sees it.

    Args:
        group: what its cells share.
        host: the handle of its actor.

    Attributes:
        placed: whether its actor has answered from a node.
    """

    def __init__(self, group: Group, host: Any) -> None:
        self.group = group
        self.host = host
        self.peak_memory = 0
        self.placed = False
        self._fault = ""
        self._printed: list[str] = []

    def send(self, request: Body) -> None:
        """Send one request; that the node is gone shows elsewhere."""
        self.host.send.remote(request)

    def take(self, heard: Heard) -> None:
        """Keep what its actor says of its end."""
        self.placed = True
        self._fault, self._printed = heard.fault, heard.printed
        self.peak_memory = heard.peak_memory

    def drain(self) -> list[object]:
        """Return nothing: the last messages come with the fault."""
        return []

    def fault(self, timeout: float) -> str:
        """Return why nothing more is to be expected of it; its actor has the clock."""
        return self._fault

    def printed(self) -> list[str]:
        """Return the last lines that were printed."""
        return self._printed


class Cluster:
    """The workers of a Ray cluster.

    Args:
        address: of the cluster; empty for that of RAY_ADDRESS, or else one that is
            started on this machine.
        most: workers that compute at the same time; 0 for as many as have room.
        threads: of the CPU for one worker.
        gpus: for one worker; a fraction shares a GPU.
        timeout: seconds that a cell may go on without progress.

    Raises:
        ConfigError: if Ray is missing or does not answer, or no node has the room.
    """

    def __init__(
        self, address: str, most: int, threads: int, gpus: float, timeout: float
    ) -> None:
        self._ray = _ray()
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
                f"GPUs, and none has; smaller `--threads`"
                f"{' or `--set gpu_share=0.5`' if gpus else ''} would work"
            )
        self.most = min(most or room, room)
        self._timeout = timeout
        remote = self._ray.remote(Host)
        self._hosts = remote.options(
            num_cpus=threads,
            num_gpus=gpus,
            max_restarts=0,  # the scheduler alone counts how often a cell begins
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        self._asked: dict[Any, ClusterWorker] = {}  # by what will be heard

    def start(self, group: Group, start: Start) -> ClusterWorker:
        """Return a new worker; arguments are those of `Workers.start`."""
        worker = ClusterWorker(group, self._hosts.remote(group, start, self._timeout))
        self._listen(worker)
        return worker

    def messages(self, seconds: float) -> Iterator[tuple[ClusterWorker, object]]:
        """Yield what workers say, each with its worker; wait so long for the first."""
        asked = list(self._asked)
        ready, _ = self._ray.wait(asked, timeout=seconds) if asked else ([], [])
        for answer in ready:
            worker = self._asked.pop(answer)
            heard = self._heard(answer, worker.placed)
            worker.take(heard)
            if not heard.fault:
                self._listen(worker)
            for message in heard.messages:
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

    def _heard(self, answer: Any, placed: bool) -> Heard:
        """Return what an actor answers, or that it will not any more."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(answer)
        except errors.OutOfMemoryError as error:
            fault = f"oom: {one_line(str(error))[:200]}"
        except errors.RayTaskError as error:  # its node cannot start a worker
            fault = f"exit: {one_line(str(error.cause))[:200]}"
        except errors.RayError as error:
            kind = "killed" if placed else UNPLACED
            fault = f"{kind}: its place on a node is gone, {type(error).__name__}"
        return Heard([], fault, [], 0)


def _knock(address: str) -> None:
    """Try a port, since Ray itself tries for minutes and says so on every line.

    Raises:
        OSError: if nobody answers there.
        ValueError: if the address has a port that is no number.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host:
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


def _ray() -> Any:
    """Return Ray.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError(
            "engine ray: must have Ray installed, and it is not; "
            "`pip install 'posenc-compare[ray]'` would work"
        ) from error
