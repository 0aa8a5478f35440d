"""What a run needs of this machine, looked at before work starts."""

import os
from dataclasses import replace

from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import Cell
from posenc_compare.settings.table import Work

GIBI = 2**30
ON_GPU = 8  # workers that share a GPU, each with half a GiB for torch's own needs


def fit_to_machine(work: Work, cells: list[Cell]) -> Work:
    """Return how to compute those cells: with workers and memory of this machine.

    A cluster has its own.
    """
    on_cpu = all(cell.setting.device == "cpu" for cell in cells)
    if work.memory and not on_cpu:
        raise ConfigError(
            f"memory must be left out for cells on a GPU, whose memory it does not "
            f"limit, got {work.memory:g}; `--device cpu` would work",
            field="memory",
        )
    if work.engine == "local":
        cores = len(os.sched_getaffinity(0)) // work.threads
        most = cores if on_cpu else min(cores, ON_GPU)
        work = replace(work, workers=work.workers or max(1, most))
        if on_cpu and not work.memory:
            whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            work = replace(work, memory=whole / GIBI)
    return work
