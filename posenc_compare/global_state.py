"""Global state of a process: reading it, comparing it and restoring it.

A scheme shares this state with other code and must leave it unchanged.
"""

import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

Pair = tuple[Callable[[], Any], Callable[[Any], Any]]

# Switches of torch for the precision of float32, from general to particular.
PRECISIONS = (
    "",
    "mkldnn",
    "mkldnn.matmul",
    "mkldnn.conv",
    "mkldnn.rnn",
    "cuda.matmul",
    "cudnn",
    "cudnn.conv",
    "cudnn.rnn",
)


def _torch_numbers() -> bytes:
    return torch.get_rng_state().numpy().tobytes()


def _set_torch_numbers(state: bytes) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _numpy_numbers() -> tuple[object, ...]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002
    return (kind, tuple(keys), *rest)


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def _folder() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:  # the folder was removed
        return None


def _set_folder(folder: Path | None) -> None:
    with suppress(OSError):
        os.chdir(folder or "/")


def _attention_kernels() -> tuple[bool, ...]:
    cuda = torch.backends.cuda
    return (
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
    )


def _set_attention_kernels(enabled: tuple[bool, ...]) -> None:
    cuda = torch.backends.cuda
    cuda.enable_flash_sdp(enabled[0])
    cuda.enable_mem_efficient_sdp(enabled[1])
    cuda.enable_math_sdp(enabled[2])
    cuda.enable_cudnn_sdp(enabled[3])


def _autocast() -> tuple[bool, torch.dtype, bool]:
    return (
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
    )


def _set_autocast(state: tuple[bool, torch.dtype, bool]) -> None:
    torch.set_autocast_enabled("cpu", state[0])
    torch.set_autocast_dtype("cpu", state[1])
    torch.set_autocast_cache_enabled(state[2])


def _set_warnings(filters: list[object]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings.simplefilter("ignore", append=True)  # invalidates Python's cache
    warnings.filters[:] = filters  # type: ignore[index]


def _onednn() -> bool:
    return bool(torch.backends.mkldnn.enabled)


def _set_onednn(enabled: bool) -> None:
    torch.backends.mkldnn.set_flags(enabled)


def _backends() -> list[Any]:
    """Return the owners of these switches; None for one that this torch lacks."""
    found = []
    for name in PRECISIONS:
        backend: Any = torch.backends
        for part in filter(None, name.split(".")):
            backend = getattr(backend, part, None)
        found.append(backend)
    return found


def _precisions() -> list[object]:
    return [getattr(backend, "fp32_precision", None) for backend in _backends()]


def _set_precisions(values: list[object]) -> None:
    for backend, value in zip(_backends(), values, strict=True):
        if getattr(backend, "fp32_precision", None) != value:
            backend.fp32_precision = value


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _set_search_path(folders: list[str]) -> None:
    sys.path[:] = folders


STATE: dict[str, Pair] = {
    "random numbers of torch": (_torch_numbers, _set_torch_numbers),
    "random numbers of Python": (random.getstate, random.setstate),
    "random numbers of NumPy": (_numpy_numbers, np.random.set_state),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "default device": (torch.get_default_device, torch.set_default_device),
    "threads of torch": (torch.get_num_threads, torch.set_num_threads),
    "matrix products": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "precision of float32": (_precisions, _set_precisions),
    "attention kernels": (_attention_kernels, _set_attention_kernels),
    "autocast": (_autocast, _set_autocast),
    "oneDNN": (_onednn, _set_onednn),
    "gradient mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "deterministic mode": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "filters of warnings": (lambda: list(warnings.filters), _set_warnings),
    "working folder": (_folder, _set_folder),
    "environment": (lambda: dict(os.environ), _set_environment),
    "search path": (lambda: list(sys.path), _set_search_path),
    # These cannot be restored:
    "threads": (threading.active_count, lambda count: None),
    "child processes": (_has_children, lambda some: None),
}
"""The parts of the global state, each with a function to read and one to set it."""


def process_state() -> dict[str, object]:
    """Return the global state by part; a part that cannot be read equals no other."""
    return {name: _read(read) for name, (read, _) in STATE.items()}


def _read(read: Callable[[], Any]) -> object:
    try:
        return read()
    except Exception:  # of switches of torch that contradict each other
        return object()


def changes(before: dict[str, object], *but: str) -> list[str]:
    """Return the parts that differ from `before`, except those in `but`."""
    after = process_state()
    return [name for name in before if before[name] != after[name] and name not in but]


@contextmanager
def preserve_state() -> Iterator[None]:
    """Restore the global state on exit so that checks stay independent."""
    before = process_state()
    try:
        yield
    finally:
        restore(before)


def restore(before: dict[str, object]) -> None:
    """Restore the parts that differ from `before`, where that is possible."""
    for name in changes(before):
        with suppress(Exception):  # `changes` still has what could not be set
            STATE[name][1](before[name])
