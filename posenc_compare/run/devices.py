"""Where to compute: device, workers and memory, checked before anything starts.

Torch is asked in a process of its own, and only where it could know of a device, so
that a plan stays light.
"""

import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from posenc_compare.errors import ConfigError
from posenc_compare.fresh import python
from posenc_compare.records.cells import Cell
from posenc_compare.settings.table import Work

GIBI = 2**30
ON_GPU = 8  # workers that share a GPU, each with half a GiB for torch's own needs

BUILT = re.compile(r"^(cuda|hip)\b.*=\s*['\"]", re.MULTILINE)  # in torch/version.py
ASK = """
import json, torch
if torch.cuda.is_available():
    print(json.dumps(torch.cuda.get_device_name(0)))
"""


def resolve_device(name: str, *, on_gpu: bool) -> str:
    """Return `cpu` or `cuda` for `auto`, `cpu` or `cuda`.

    `on_gpu` states whether `auto` is a GPU if there is one.
    """
    if name == "cuda" and not graphics():
        built = f"torch {importlib.metadata.version('torch')}"
        raise ConfigError(
            f"device cuda: must be present, and {built} finds none; "
            f"`--device cpu` would work"
        )
    if name == "auto":
        return "cuda" if on_gpu and graphics() else "cpu"
    return name


@functools.cache
def graphics() -> str:
    """Return the name of the first CUDA device; "" if torch can use none."""
    if not _built_for_cuda():
        return ""
    answer = subprocess.run(python(ASK), capture_output=True, text=True, check=False)
    lines = answer.stdout.splitlines()
    if answer.returncode or not lines:
        return ""
    return json.loads(lines[-1])


def _built_for_cuda() -> bool:
    """Return whether torch was built for CUDA or ROCm, from its version file."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ConfigError("torch must be installed, and is not; `pip install torch`")
    text = Path(spec.origin).with_name("version.py").read_text()
    return bool(BUILT.search(text))


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
