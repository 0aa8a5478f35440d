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
from typing import Any

import numpy as np
import torch


def _numpy_numbers() -> tuple[object, ...]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002
    return (kind, tuple(keys), *rest)


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def _set_warnings(filters: list[object]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings.simplefilter("ignore", append=True)  # invalidates Python's cache
    warnings.filters[:] = filters  # type: ignore[index]


def _set_search_path(folders: list[str]) -> None:
    sys.path[:] = folders


STATE: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "random numbers of torch": (
        lambda: torch.get_rng_state().tolist(),
        lambda state: torch.set_rng_state(torch.ByteTensor(state)),
    ),
    "random numbers of Python": (random.getstate, random.setstate),
    "random numbers of NumPy": (_numpy_numbers, np.random.set_state),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "default device": (torch.get_default_device, torch.set_default_device),
    "threads of torch": (torch.get_num_threads, torch.set_num_threads),
    "precision of float32": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "autocast": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda enabled: torch.set_autocast_enabled("cpu", enabled),
    ),
    "gradient mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "deterministic mode": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "filters of warnings": (lambda: list(warnings.filters), _set_warnings),
    "environment": (lambda: dict(os.environ), _set_environment),
    "search path": (lambda: list(sys.path), _set_search_path),
    "threads": (threading.active_count, lambda count: None),  # these stay
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
    """Restore the global state on exit, where possible, so that checks stay apart."""
    before = process_state()
    try:
        yield
    finally:
        for name in changes(before):
            with suppress(Exception):  # `changes` still has what could not be set
                STATE[name][1](before[name])
