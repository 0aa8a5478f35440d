"""Run a benchmark by name: `python -m benchmarks NAME [what it takes]`."""

import importlib
import os
import sys

from posenc_compare.analysis.engine.local import KEEP_MEMORY

NAMES = {
    "attention": "paths of attention, as ratios to the kernel without a bias",
    "commands": "commands as whole processes",
    "gpu": "what is right and fast on a GPU, part by part",
    "models": "whole models that read a long text, as ratios to rope",
    "rotation": "rotations of queries, as ratios to a copy",
    "steps": "steps of training, as ratios to one without a scheme",
}


def main() -> int:
    """Run the benchmark that is named, or list them."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in NAMES:
        for known, what in NAMES.items():
            print(f"{known:10s} {what}")
        return 2
    if not KEEP_MEMORY.items() <= os.environ.items():
        # A process reads these when it starts.
        os.environ.update(KEEP_MEMORY)
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]])
    importlib.import_module(f"benchmarks.{name}").main(sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
