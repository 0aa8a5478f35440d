"""Trainings a minute with several workers on one card, through the command line."""

import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.gpu.common import Options, shown

COUNTS = (1, 2, 4, 8)
TINY = "steps=3,length=16,width=16,heads=2,batch=2,test_bytes=64,longest=2"


def run(options: Options) -> None:
    """Train nope and rope of six seeds with so many workers at once."""
    rows: list[dict[str, Any]] = []
    for workers in (1, 2) if options.small else COUNTS:
        seeds = 1 if options.small else 6
        words = [sys.executable, "-m", "posenc_compare", "run"]
        words += ["--measures", "extrapolation", "--schemes", "nope,rope"]
        words += ["--seeds", str(seeds), "--workers", str(workers)]
        words += ["--device", options.device]
        words += ["--set", TINY] if options.small else []
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            done = subprocess.run(
                [*words, "--out", f"{folder}/run"],
                capture_output=True,
                text=True,
                check=False,
            )
            seconds = time.perf_counter() - start
        row: dict[str, Any] = {"workers": workers, "seconds": seconds}
        row |= {"a_minute": 60 * 2 * seeds / seconds, "rc": done.returncode}
        if done.returncode:
            row["error"] = done.stderr[-300:]
        rows.append(row)
        options.keep("workers", rows)
        print(shown(row), flush=True)
