"""What a scheduler asks of workers, wherever they are."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from posenc_compare.analysis.core.canonical import Body
from posenc_compare.fresh import search_path
from posenc_compare.sources import texts

UNPLACED = "unplaced"  # of a worker that no node has taken


@dataclass(frozen=True)
class Limits:
    """What a run may use.

    Attributes:
        workers: processes that compute at the same time; 0 for as many as a cluster
            has room for.
        timeout: seconds that a cell may go on without progress.
        memory: bytes of a worker's data; -1 for no limit.
        interval: seconds between checkpoints of a training.
        fail_fast: stop at the first cell that fails or is lost.
        deterministic: let torch refuse what may give other bytes another time.
    """

    workers: int
    timeout: float = 3600.0
    memory: int = -1
    interval: float = 180.0
    fail_fast: bool = False
    deterministic: bool = False


@dataclass(frozen=True)
class Group:
    """What the cells of one worker share.

    Attributes:
        origins: from where code other than this package's computes them.
        alone: whether no other worker may compute meanwhile.
        schemes: of plugins; those of one file do not meet either.
    """

    origins: tuple[str, ...]
    alone: bool = False
    schemes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Start:
    """What a worker begins with, whichever machine it is on.

    Attributes:
        source: of all modules that its cells depend on, and where they lie.
        path: to import from.
        plugins: files and modules that register schemes.
        memory: bytes of data; -1 for no limit.
        deterministic: let torch refuse what may give other bytes another time.
    """

    source: bytes
    path: list[str]
    plugins: list[str]
    memory: int
    deterministic: bool


def start_of(modules: dict[str, Path], plugins: list[str], limits: Limits) -> Start:
    """Return what a worker begins with.

    Args:
        modules: by name, the paths of the modules that its cells depend on.
        plugins: as given on the command line.
        limits: of the run.
    """
    paths = {name: str(path) for name, path in modules.items()}
    source = json.dumps({"modules": paths, "texts": texts()}).encode()
    places = [str(Path(p).resolve()) if p.endswith(".py") else p for p in plugins]
    return Start(source, search_path(), places, limits.memory, limits.deterministic)


class Worker(Protocol):
    """A process that computes cells of one group.

    Attributes:
        group: what its cells share.
        peak_memory: bytes, known once it has ended.
    """

    group: Group
    peak_memory: int

    def send(self, request: Body) -> None:
        """Send one request; that the process has died shows elsewhere."""
        ...

    def drain(self) -> list[object]:
        """Return the messages that were still under way."""
        ...

    def fault(self, timeout: float) -> str:
        """Return why nothing more is to be expected of this worker, or nothing.

        Args:
            timeout: seconds that a cell may go on without progress.
        """
        ...

    def printed(self) -> list[str]:
        """Return the last lines that were printed."""
        ...


W = TypeVar("W", bound=Worker)


class Workers(Protocol[W]):
    """The workers of a run, heard together.

    Attributes:
        most: workers that compute at the same time.
    """

    most: int

    def start(self, group: Group, start: Start) -> W:
        """Return a new worker.

        Args:
            group: what its cells share.
            start: what it begins with.

        Raises:
            StoreError: if the source cannot be handed over.
            OSError: if no process can be started.
        """
        ...

    def messages(self, seconds: float) -> Iterator[tuple[W, object]]:
        """Yield what workers say, each with its worker; wait so long for the first."""
        ...

    def end(self, worker: W) -> None:
        """Kill a worker and hear it no more."""
        ...

    def close(self) -> None:
        """Free what listening took; every worker has ended."""
        ...
