"""What a run needs of this machine, looked at before work starts."""

import os
import resource
from collections.abc import Iterable
from pathlib import Path

from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import Cell
from posenc_compare.run.devices import graphics
from posenc_compare.run.workers import Limits
from posenc_compare.settings.table import Work

PIPES = 2  # open files of this process for each worker
SPARE = 8  # more of them while a worker starts and a record is written


def limits_of(work: Work, cells: list[Cell]) -> Limits:
    """Return the limits of a run over those cells.

    Without a cluster they fit this machine.

    Raises:
        ConfigError: if a value is out of range, or a cell or the workers need more
            than there is.
    """
    on_cpu = all(cell.setting.device == "cpu" for cell in cells)
    if work.memory and not on_cpu:
        raise ConfigError(
            f"memory must be left out for cells on a GPU, whose memory it does not "
            f"limit, got {work.memory:g}; `--device cpu` would work",
            field="memory",
        )
    asked, workers = int(work.memory * 2**30), work.workers
    if work.engine == "local":
        cores = len(os.sched_getaffinity(0)) if on_cpu else 1
        workers = workers or max(1, cores // work.threads)
        check_machine(workers)
        asked = asked or memory_of("cpu")
    return Limits(
        workers=workers,
        timeout=work.timeout,
        memory=asked if on_cpu and asked else -1,
        interval=work.checkpoint_every,
        fail_fast=work.fail_fast,
        deterministic=work.deterministic,
    )


def check_machine(workers: int) -> None:
    """Refuse to start workers that could not work.

    Raises:
        ConfigError: if their pipes do not fit into the limit of open files, or the
            current folder is gone, from which none can load its libraries.
    """
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise ConfigError(
            "the current folder must exist, and is gone; `cd` to another would work"
        ) from error
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    own = len(os.listdir("/dev/fd")) + SPARE  # noqa: PTH208
    if limit in range(own + PIPES * workers):
        most = (limit - own) // PIPES
        advice = f"--workers {most}" if most > 0 else f"ulimit -n {own + PIPES}"
        raise ConfigError(
            f"workers must be so few that {limit} open files are enough, got "
            f"{workers}, which need {own + PIPES * workers}; `{advice}` would work",
            field="workers",
        )


def memory_of(device: str) -> int:
    """Return the bytes that there are where a device computes."""
    found = graphics() if device == "cuda" else None
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return found.memory if found else whole


def check_memory(cells: Iterable[Cell], limit: int) -> None:
    """Refuse cells that cannot fit, before any is computed.

    Args:
        cells: that are planned.
        limit: bytes that one may take; -1 for all that its device has.

    Raises:
        ConfigError: if one needs more at the least.
    """
    most: dict[str, int] = {}
    for cell in cells:
        device = cell.setting.device
        most[device] = max(most.get(device, 0), cell.setting.memory)
    for device, needed in most.items():
        room = limit if limit >= 0 else memory_of(device)
        if needed > room:
            raise ConfigError(
                f"a cell must fit into {_gibi(room)} of memory, and needs at "
                f"least {_gibi(needed)}; smaller sizes would work"
            )


def _gibi(size: int) -> str:
    """Return a number of bytes in GiB, small ones too."""
    gibi = size / 2**30
    return f"{gibi:.1f} GiB" if gibi >= 1 else f"{gibi:.1g} GiB"
