"""Where a record comes from: versions, machine and switches, nothing private.

No user name, host name, path or environment is ever recorded.
"""

import functools
import importlib.metadata
import os
import platform
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posenc_compare.records.cells import Cell
from posenc_compare.records.record import Facts
from posenc_compare.registry import SCHEMES
from posenc_compare.source.edits import PACKAGE, git
from posenc_compare.version import __version__

SWITCHES = (
    "ATEN_CPU_CAPABILITY",
    "DNNL_DEFAULT_FPMATH_MODE",
    "DNNL_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
)
INSTRUCTIONS = "avx2 avx512f avx512_bf16 amx_bf16 amx_tile asimd sve".split()


def provenance(cell: Cell) -> Facts:
    """Return what a record says of the code and the machine behind it."""
    entry = SCHEMES.entry(cell.variant.name)
    return {
        **place(),
        **({**_graphics(), **_peak()} if cell.setting.device == "cuda" else {}),
        "scheme_origin": Path(entry.origin).name,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "flush_denormal": True,
        "float32_matmul_precision": _matmul_precision(cell.setting.device),
    }


def _matmul_precision(device: str) -> str:
    """Return how exact matrix products are, by whichever switch of torch says so."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # newer switches say what this one has no word for
        backends: Any = torch.backends
        backend = backends.cuda if device == "cuda" else backends.mkldnn
        return str(backend.matmul.fp32_precision)


@functools.cache
def place() -> Facts:
    """Return what is the same for every record of this process.

    A worker asks before it runs a scheme, which may hide where modules lie.
    """
    return {
        **_git(),
        "posenc_compare": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "safetensors": importlib.metadata.version("safetensors"),
        **_machine(),
    }


def _git() -> Facts:
    """Return commit and state of the package's own checkout, if it is run from one."""
    if not (PACKAGE.parent / ".git").exists():
        return {}
    try:
        commit = git("rev-parse", "HEAD").decode().strip()
        changed = git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {"git_commit": commit, "git_dirty": bool(changed)}


def _machine() -> Facts:
    told: dict[str, set[str]] = defaultdict(set)
    for line in _lines("/proc/cpuinfo"):
        field, _, value = line.partition(":")
        told[field.strip()].add(value.strip())
    flags = {flag for text in told["flags"] | told["Features"] for flag in text.split()}
    makers = told["vendor_id"] | told["CPU implementer"]
    # What the libraries choose their instructions by; some change last bits. Torch goes
    # by its capability, MKL also by who made the processor, and all by switches.
    switches = [f"{name}={os.environ[name]}" for name in SWITCHES if name in os.environ]
    capability = torch.backends.cpu.get_cpu_capability()
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": ", ".join(sorted(told["model name"])) or platform.processor(),
        "instructions": " ".join(name for name in INSTRUCTIONS if name in flags),
        "arithmetic": " ".join([capability, *sorted(makers), *switches]),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


@functools.cache
def _graphics() -> Facts:
    facts = torch.cuda.get_device_properties(0)
    return {
        "device": facts.name,
        "device_memory_bytes": facts.total_memory,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "driver": " ".join(_lines("/proc/driver/nvidia/version")[:1]),
        "tf32_matmul": _allows_tf32(torch.backends.cuda.matmul),
        "tf32_cudnn": _allows_tf32(torch.backends.cudnn),
    }


def _allows_tf32(backend: Any) -> bool | str:
    """Return whether TF32 is allowed."""
    try:
        return backend.allow_tf32
    except RuntimeError:  # newer switches say it of some operations alone
        return str(backend.fp32_precision)


def _peak() -> Facts:
    """Return the most memory of the device that a cell held; the next begins anew."""
    most = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return {"peak_device_memory_bytes": most}


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
