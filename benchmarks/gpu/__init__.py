"""What is right and what is fast on a GPU, in parts of a few minutes each.

    python -m benchmarks gpu facts correct waits paths rotation steps measures
    python -m benchmarks gpu workers faults
    python -m benchmarks gpu correct paths steps --device cpu --small   # a dry run

Parts run in the order that they are named in. Each writes what it finds to
OUT/PART.json after every case, so that a call cut short keeps what it had, and ends
with a short table. Nothing has to be installed but what the package imports.
"""

import argparse
import importlib
import sys
import time
import traceback
from pathlib import Path

from benchmarks.gpu.common import Options

PARTS = (
    *("facts", "correct", "waits", "paths", "rotation", "steps", "measures"),
    *("workers", "faults"),
)


def main(words: list[str]) -> None:
    """Run the parts that are named; one that fails leaves the others."""
    parser = argparse.ArgumentParser(prog="benchmarks gpu", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS, metavar="PART")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="sizes for a dry run")
    parser.add_argument("--schemes", default="", help="comma-separated; empty: all")
    parser.add_argument("--processes", type=int, default=8, help="of `correct`")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds of each")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"))
    given = parser.parse_args(words)
    options = Options(
        given.device,
        given.small,
        tuple(filter(None, given.schemes.split(","))),
        given.processes,
        given.limit,
        given.out,
    )
    failed = False
    for part in given.parts:
        start = time.perf_counter()
        try:
            importlib.import_module(f"benchmarks.gpu.{part}").run(options)
        except Exception:  # the other parts are worth having
            traceback.print_exc(limit=5)
            failed = True
        print(f"--- {part}: {time.perf_counter() - start:.0f} s", flush=True)
    if failed:
        sys.exit(1)
