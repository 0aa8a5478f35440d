"""Planted faults: `python tests/mutants.py` takes some minutes.

Plants each fault of `planted`, one line long, in a copy of the package and runs the
test that must see it; where the fault names a scheme, the conformance checks of that
scheme come first. `--part schemes` plants those of one room, and names of faults plant
those alone: `python tests/mutants.py "bucket edge"`. The exit code is 1 if any
survives.

A kill is a test that fails. What cannot be compiled, imported or collected, lacks a
name or does not end proves no test and is no kill. Where a test is red without a
fault, nothing is planted.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from planted import Fault

ROOT = Path(__file__).parent.parent
COPIED = ("posenc_compare", "tests", "examples", "docs", "pyproject.toml", "README.md")
WORKERS = 2
PATIENCE = 300.0  # seconds until a process is given up
# Prints the first check that fails, and why. Those left out look at speed and at
# processes.
CONFORM = """
import sys
import posenc_compare.conformance as c
from posenc_compare.variants import parse_variants

assert c.__file__.startswith(sys.argv[1]), c.__file__
for label in sys.argv[2:]:
    (variant,) = parse_variants(label)
    for code in sorted(set(c.CHECKS) - {"C09", "C23", "C24"}):
        found = c.run_check(c.Subject(variant), code)
        if found.state == "failed":
            sys.exit(print(f"FAILED {label}::{code} - {found.cause}"))
"""
FAILED = re.compile(r"^FAILED .+?::(\w+)(.*)$", re.MULTILINE)
NO_TEST = re.compile(r"\b(Import|ModuleNotFound|Syntax|Indentation|Name)Error\b")
ROOMS: dict[str, ModuleType] = {
    path.stem: import_module(f"planted.{path.stem}")
    for path in sorted(ROOT.glob("tests/planted/[!_]*.py"))
}
FAULTS: list[Fault] = [fault for room in ROOMS.values() for fault in room.FAULTS]


class NoTestError(Exception):
    """What went wrong is not that a test failed."""


@contextmanager
def copied(fault: Fault | None = None) -> Iterator[Path]:
    """Yield a folder with a copy of the package that has the fault, or none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for part in COPIED:
            if (ROOT / part).is_dir():
                skip = shutil.ignore_patterns(".*")
                shutil.copytree(ROOT / part, folder / part, ignore=skip)
            else:
                shutil.copy(ROOT / part, folder / part)
        if fault:
            file = folder / "posenc_compare" / fault.file
            file.write_text(wrong(fault, file.read_text("utf-8")), "utf-8")
        yield folder


def wrong(fault: Fault, text: str) -> str:
    """Return the text of a file with the fault in it."""
    if (found := text.count(fault.old)) != 1:
        raise NoTestError(f"{fault.old!r} is {found} times in {fault.file}")
    text = text.replace(fault.old, fault.new)
    try:
        compile(text, fault.file, "exec")
    except SyntaxError as error:
        raise NoTestError(str(error)) from error
    return text


def python(folder: Path, *words: str) -> tuple[int, str]:
    """Run python in a folder, on one core; return its exit code and what it printed."""
    env = {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
    try:
        done = subprocess.run(
            [sys.executable, "-B", *words],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, **env},
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoTestError(f"no end within {PATIENCE:g} s") from error
    return done.returncode, done.stdout + done.stderr


def red(code: int, said: str, codes: tuple[int, ...]) -> str:
    """Return the name of the first test that failed, or nothing if none did.

    Args:
        code: with which the process ended.
        said: what it printed.
        codes: with which it ends if tests have run.
    """
    found = FAILED.search(said)
    if code not in codes or bool(code) > bool(found):
        raise NoTestError(said[-2000:])
    if found and NO_TEST.search(found[2]):
        raise NoTestError(found[0])
    return found[1] if found else ""


def failed_check(folder: Path, labels: set[str]) -> str:
    """Return the code of a conformance check that fails, or nothing."""
    said = python(folder, "-c", CONFORM, str(folder), *sorted(labels))
    return red(*said, codes=(0,))


def failed_test(folder: Path, tests: set[str]) -> str:
    """Return the name of a test that fails, or nothing."""
    options = "-qx -rf --tb=no -p no:cacheprovider -o addopts=".split()
    said = python(folder, "-m", "pytest", *options, *sorted(tests))
    return red(*said, codes=(0, 1))


def killer(fault: Fault) -> str:
    """Return what turned red, or SURVIVED or NO TEST."""
    try:
        with copied(fault) as folder:
            if fault.label and (check := failed_check(folder, {fault.label})):
                return f"conformance {check}"
            test = failed_test(folder, {fault.tests})
            return f"tests {test}" if test else "SURVIVED"
    except NoTestError as problem:
        return f"NO TEST: {problem}"


def plant(part: str, faults: list[Fault]) -> int:
    """Plant the faults of a part and print a line for each; return the survivors."""
    start = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as pool, copied() as folder:
        labels = {fault.label for fault in faults} - {""}
        checks = pool.submit(failed_check, folder, labels)
        tests = pool.submit(failed_test, folder, {fault.tests for fault in faults})
        if before := checks.result() or tests.result():
            sys.exit(f"{before} fails without a fault")
        kills = []
        for fault, by in zip(faults, pool.map(killer, faults), strict=True):
            print(f"{fault.file:37} {fault.name:32} {by}", flush=True)
            kills.append(by.partition(" ")[0])
    alone, killed = kills.count("conformance"), kills.count("tests")
    said = f"{part}: {alone + killed} of {len(kills)} killed"
    said += f", {alone} by conformance" if labels else ""
    print(f"{said}, in {time.monotonic() - start:.0f} s", flush=True)
    return len(kills) - alone - killed


def main() -> None:
    """Plant the faults that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=ROOMS, action="append", help="one room alone")
    parser.add_argument("names", nargs="*", help="of faults; nothing means all")
    given = parser.parse_args()
    if unknown := set(given.names) - {fault.name for fault in FAULTS}:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    survivors = 0
    for part in given.part or ROOMS:
        faults = ROOMS[part].FAULTS
        faults = [f for f in faults if not given.names or f.name in given.names]
        survivors += plant(part, faults) if faults else 0
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
