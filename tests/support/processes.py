"""Processes: of Python, whose children they are, and when they are gone."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def python(
    *words: object, cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run Python in a process of its own, with changes of the environment."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def git(folder: Path, *words: str) -> None:
    """Run git in a folder, as somebody, and quietly."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *who, *words]
    subprocess.run(command, capture_output=True, check=True)


def fields(pid: int) -> list[str]:
    """Return state, parent, ... of a process that runs; nothing if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    facts = text.rpartition(")")[2].split()
    return [] if facts[0] == "Z" else facts  # which waits to be buried


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    every = [int(place.name) for place in Path("/proc").glob("[0-9]*")]
    return [one for one in every if fields(one)[1:2] == [str(pid)]]


def wait_for(ready: Callable[[], Any], seconds: float = 60) -> Any:
    """Return what `ready` returns once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)
    return found


def gone_within(pids: list[int], seconds: float) -> bool:
    """Return whether no process is left after that time, at most."""
    wait = time.monotonic() + seconds
    while any(map(fields, pids)) and time.monotonic() < wait:
        time.sleep(0.01)
    return not any(map(fields, pids))
