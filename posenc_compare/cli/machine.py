"""What the machine must give to a run, looked at before work starts."""

import os
import resource
from pathlib import Path

from posenc_compare.errors import ConfigError

PIPES = 3  # open files of this process for each worker
SPARE = 8  # more of them while a worker starts and a record is written


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
            f"{workers}, which need {own + PIPES * workers}; `{advice}` would work"
        )
