"""What a run needs of this machine, looked at before work starts."""

import os
from collections.abc import Iterable
from dataclasses import replace

from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import Cell
from posenc_compare.run.devices import graphics
from posenc_compare.settings.table import Work

GIBI = 2**30


def fitted(work: Work, cells: list[Cell]) -> Work:
    """Return how to compute those cells: with workers and memory of this machine.

    A cluster has its own.

    Raises:
        ConfigError: if memory is limited for cells on a GPU, or a cell needs more
            than there is.
    """
    on_cpu = all(cell.setting.device == "cpu" for cell in cells)
    if work.memory and not on_cpu:
        raise ConfigError(
            f"memory must be left out for cells on a GPU, whose memory it does not "
            f"limit, got {work.memory:g}; `--device cpu` would work",
            field="memory",
        )
    if work.engine == "local":
        cores = len(os.sched_getaffinity(0)) if on_cpu else 1
        work = replace(work, workers=work.workers or max(1, cores // work.threads))
        if on_cpu and not work.memory:
            work = replace(work, memory=memory_of("cpu") / GIBI)
    if work.engine == "local" or work.memory:
        _check_memory(cells, work.memory)
    return work


def memory_of(device: str) -> int:
    """Return the bytes that there are where a device computes."""
    found = graphics() if device == "cuda" else None
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return found.memory if found else whole


def _check_memory(cells: Iterable[Cell], limit: float) -> None:
    """Refuse cells that cannot fit, before any is computed.

    Args:
        cells: that are planned.
        limit: GiB that one may take; 0 for all that its device has.

    Raises:
        ConfigError: if one needs more at the least.
    """
    most: dict[str, int] = {}
    for cell in cells:
        device = cell.setting.device
        most[device] = max(most.get(device, 0), cell.setting.memory)
    for device, needed in most.items():
        room = limit or memory_of(device) / GIBI
        if needed > room * GIBI:
            raise ConfigError(
                f"a cell must fit into {_gibi(room)} of memory, and needs at "
                f"least {_gibi(needed / GIBI)}; smaller sizes would work"
            )


def _gibi(size: float) -> str:
    return f"{size:.1f} GiB" if size >= 1 else f"{size:.1g} GiB"
