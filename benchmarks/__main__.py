"""Run a benchmark by name: `python -m benchmarks NAME [what it takes]`.

`python -m benchmarks all` runs one after the other what the aims are held against.
"""

import importlib
import os
import sys

from posenc_compare.run.workers import KEEP_MEMORY

NAMES = {
    "aims": "what was timed, beside what was aimed at",
    "attention": "paths of attention, as ratios to the kernel without a bias",
    "commands": "commands as whole processes",
    "decode": "a decoding step, as a ratio to plain torch",
    "gpu": "what is right and fast on a GPU, part by part",
    "growth": "how time and memory of attention grow with the length",
    "measures": "measures of very many positions",
    "models": "whole models that read a long text, as ratios to rope",
    "reading": "models that read eight texts of 2048 bytes, as ratios to nope",
    "rotation": "rotations of queries, as ratios to a copy",
    "steps": "steps of training, as ratios to one without a scheme",
}
ALL = (
    "rotation",
    "attention",
    "models",
    "reading",
    "steps",
    "decode",
    "measures",
    "aims",
)


def main() -> int:
    """Run the benchmark that is named, or list them."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in (*NAMES, "all"):
        for known, what in NAMES.items():
            print(f"{known:10s} {what}")
        print(f"{'all':10s} {', '.join(ALL)}")
        return 2
    if not KEEP_MEMORY.items() <= os.environ.items():
        # A process reads these when it starts.
        os.environ.update(KEEP_MEMORY)
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]])
    for one in ALL if name == "all" else (name,):
        importlib.import_module(f"benchmarks.{one}").main(sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
