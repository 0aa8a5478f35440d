"""Faults in large numbers: `python tests/soak.py` takes half an hour.

Every row injects real faults into real runs and prints how many, and what was lost.
Name rows to run only those: `python tests/soak.py F01 F09`. The exit code is 1 if any
row does not hold.
"""

import importlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from posenc_compare.records.diff import result
from posenc_compare.records.record import Record
from posenc_compare.records.store import Store

ROWS: dict[str, Callable[[Path], str]] = {}
GRID = "nope,rope,alibi,sinusoidal,integer,learned,t5_bias,binary"
CHEAP = [
    "measure",
    "--schemes",
    GRID,
    "--measures",
    "smoothness",
    "--set",
    "positions=64",
]
SIZES = ["--set", "layers=1,width=16,heads=2,length=8,longest=2,batch=2"]
SMALL = ["run", "--measures", "extrapolation", *SIZES, "--set", "test_bytes=64"]
LONG = [*SMALL, "--schemes", "learned", "--seeds", "1", "--set", "steps=1500"]
CHANCE = random.Random(0)


def row(function: Callable[[Path], str]) -> Callable[[Path], str]:
    """File a function that injects the faults of one row and returns its figures."""
    ROWS[function.__name__.upper()] = function
    return function


class RowError(AssertionError):
    """A row does not hold."""


def hold(condition: bool, what: str) -> None:
    if not condition:
        raise RowError(what)


class Run:
    """One command in the background."""

    def __init__(self, words: list[str], out: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "posenc_compare", *words, "--out", str(out)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def workers(self) -> list[int]:
        """Return the process ids of the workers alive now."""
        pid = self.process.pid
        try:
            text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        except OSError:
            return []
        return [int(word) for word in text.split()]

    def wait_for(self, ready: Callable[[], bool], seconds: float = 60) -> bool:
        """Wait until something is ready; return whether the run still goes on."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and not ready():
            hold(time.monotonic() < end, f"nothing happened for {seconds} s")
            time.sleep(0.005)
        return self.process.poll() is None

    def end(self, seconds: float = 300) -> tuple[int, str]:
        """Wait for the end and return exit code and messages."""
        _, errors = self.process.communicate(timeout=seconds)
        return self.process.returncode, errors


def finish(words: list[str], out: Path) -> str:
    code, errors = Run(words, out).end()
    hold(code == 0, f"exit code {code}: {errors[-500:]}")
    return errors


def results(out: Path) -> dict[str, bytes]:
    return {
        record["key"]: result(Record.from_json(record))
        for record in Store(out).records()
    }


def computed(errors: str) -> int:
    (line,) = [line for line in errors.splitlines() if line.startswith("computed ")]
    return int(line.split()[1])


def alive(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def seconds(low: float, high: float) -> float:
    return low + (high - low) * CHANCE.random()


def resumed(out: Path) -> int:
    return sum(
        record["provenance"].get("resumed_from_step", 0) > 0
        for record in Store(out).records()
    )


@row
def f01(folder: Path) -> str:
    """Kill a worker in the middle of a training."""
    finish(LONG, folder / "whole")
    whole, kills, went_on = results(folder / "whole"), 0, 0
    for attempt in range(10):
        out = folder / str(attempt)
        run = Run([*LONG, "--set", "checkpoint_every=0.1"], out)
        for _ in range(2):  # the third start of a cell is its last
            before = run.workers()
            manifest = f"ckpt/{next(iter(whole))}/manifest.json"
            run.wait_for(lambda out=out, m=manifest: (out / m).exists())
            time.sleep(seconds(0, 1.0))
            for pid in run.workers():
                os.kill(pid, signal.SIGKILL)
                kills += 1
            run.wait_for(lambda run=run, b=before: set(run.workers()) != set(b))
        code, errors = run.end()
        hold(code == 0, errors[:2000])
        hold(results(out) == whole, "another result than without a kill")
        went_on += resumed(out)
    return f"{kills} kills, {went_on} of 10 trainings resumed, results the same: 10/10"


@row
def f02(folder: Path) -> str:
    """Kill the parent at random moments of a grid of 40 cells."""
    words = [*CHEAP, "--seeds", "5"]
    finish(words, folder / "whole")
    whole, kills, finished, leftovers, rounds = results(folder / "whole"), 0, 0, 0, 0
    while kills < 200:
        out = folder / f"{kills}"
        rounds += 1
        while True:
            before = {p: p.read_bytes() for p in out.glob("cells/*.json")}
            run = Run(words, out)
            time.sleep(seconds(0.3, 4.0))
            pids = run.workers()
            if run.process.poll() is not None:
                break
            run.process.kill()
            run.end()
            kills += 1
            after = {p: p.read_bytes() for p in out.glob("cells/*.json")}
            hold(
                all(after.get(p) == data for p, data in before.items()),
                "a finished cell was lost or computed again",
            )
            time.sleep(0.5)
            if alive(pids):
                time.sleep(1.5)
                leftovers += len(alive(pids))
        code, errors = run.end()
        hold(code == 0, errors[:2000])
        finished += 1
        hold(results(out) == whole, "another result than without a kill")
        store = Store(out)
        list(store.records())
        hold(not store.damaged, "a torn record")
        shutil.rmtree(out)
    hold(leftovers == 0, f"{leftovers} workers alive after 2 s")
    return (
        f"{kills} kills over {rounds} grids of 40 cells, cells lost 0, torn 0, "
        f"workers left 0"
    )


@row
def f05(folder: Path) -> str:
    """Fill a disk of one MiB, then give it space."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        return "not run: mounting a file system is not allowed here"
    try:
        words = ["measure", "--schemes", GRID, "--measures", "portrait"]
        out = disk / "run"
        start = time.monotonic()
        code, errors = Run(words, out).end()
        took = time.monotonic() - start
        hold(code == 3, f"exit code {code}: {errors}")
        line = errors.strip().splitlines()[-1]
        hold("No space left" in line and "bytes" in line, line)
        store = Store(out)
        kept = len(list(store.records()))
        hold(not store.damaged, "a damaged record")
        more = ["mount", "-o", "remount,size=64m", str(disk)]
        subprocess.run(more, check=True)
        finish(words, out)
        return f"disk full after {kept} records, exit 3 in {took:.1f} s, then 8 of 8"
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


@row
def f09(folder: Path) -> str:
    """Two runs of four workers on one folder at the same time."""
    words = [*CHEAP, "--seeds", "25"]
    finish(words, folder / "whole")
    whole, twice = results(folder / "whole"), []
    for attempt in range(3):
        out = folder / str(attempt)
        runs = [Run([*words, "--workers", "4"], out) for _ in range(2)]
        ends = [run.end() for run in runs]
        hold([code for code, _ in ends] == [0, 0], str(ends))
        hold(results(out) == whole, "another result than one run's")
        twice.append(sum(computed(errors) for _, errors in ends) / 200 - 1)
    hold(max(twice) <= 0.15, f"computed twice: {twice}")
    shares = ", ".join(f"{share:.1%}" for share in twice)
    return f"3 pairs of runs over 200 cells, cells lost 0, computed twice {shares}"


@row
def machine(folder: Path) -> str:
    """Compare the store with a dict over random operations and crashes."""
    sys.path.insert(0, str(Path(__file__).parent / "faults"))
    from hypothesis import settings
    from hypothesis.stateful import run_state_machine_as_test

    form = settings(max_examples=200, stateful_step_count=50, deadline=None)
    store = importlib.import_module("test_store")
    run_state_machine_as_test(store.StoreMachine, settings=form)
    return "200 runs of 50 operations, as a dict: 200/200"


def chosen(names: list[str]) -> Iterator[tuple[str, Callable[[Path], str]]]:
    unknown = set(names) - set(ROWS)
    if unknown:
        sys.exit(f"no such row: {', '.join(sorted(unknown))}; there are {list(ROWS)}")
    yield from ((name, ROWS[name]) for name in names or ROWS)


def main() -> None:
    """Run the rows named, or all, and print a line for each."""
    bad: list[Any] = []
    for name, function in chosen([word.upper() for word in sys.argv[1:]]):
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                line = function(Path(folder))
            except RowError as problem:
                line = f"DOES NOT HOLD: {problem}"
                bad.append(name)
        took = time.monotonic() - start
        print(f"{name:7} {line} ({took:.0f} s)", flush=True)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
