"""Where the workers of a run are: on this machine, or on a cluster."""

import re
from collections.abc import Iterable

from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import Cell
from posenc_compare.run.cluster import Cluster
from posenc_compare.run.workers import Limits, Pool
from posenc_compare.settings.table import Work

ADDRESS = re.compile(r"(auto|(ray://)?[^\s:/]+:[0-9]{1,5}|\[[0-9a-f:]+\]:[0-9]{1,5})?")


def check_engine(work: Work) -> None:
    """Refuse choices that do not fit together.

    Raises:
        ConfigError: if there are such.
    """
    if work.gpu_share > 1 and work.gpu_share % 1:
        raise ConfigError(
            f"gpu_share must be a whole number above 1, got {work.gpu_share:g}; 1 or "
            f"0.5 would work",
            field="gpu_share",
        )
    if not ADDRESS.fullmatch(work.address):
        raise ConfigError(
            f"address must be HOST:PORT, ray://HOST:PORT or auto, got "
            f"{work.address[:80]!r}; 10.0.0.1:6379 would work",
            field="address",
        )
    for name in ("address", "gpu_share") if work.engine == "local" else ():
        given, default = getattr(work, name), getattr(Work, name)
        if given != default:
            raise ConfigError(
                f"{name} must be left out on this machine alone, got {given!r}; "
                f"`--engine ray` would work",
                field=name,
            )


def workers_of(work: Work, limits: Limits, cells: Iterable[Cell]) -> Pool | Cluster:
    """Return the workers that cells are computed by.

    Raises:
        ConfigError: if a cluster does not answer, or has no room.
    """
    if work.engine == "local":
        return Pool(limits.workers)
    on_gpu = any(cell.setting.device != "cpu" for cell in cells)
    gpus = work.gpu_share if on_gpu else 0.0
    return Cluster(work.address, limits.workers, work.threads, gpus)
