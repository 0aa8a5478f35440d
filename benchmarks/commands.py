"""Time commands as whole processes against an interpreter that does nothing.

Every round runs each command once, in turn, so that noise meets all alike. The table
gives the median processor time over rounds, and its ratio to `python -c pass`.

    python -m benchmarks commands
"""

import resource
import statistics
import subprocess
import sys

ROUNDS = 9
COMMANDS = [
    "--help",
    "list",
    "describe rope",
    "run --schemes rop",
    "run --set steps=0",
    "measure --set positions=1048576,width=65536",
    "run --schemes all --out results/language/quick --dry-run",
    "status results/language/quick",
    "table results/language/quick",
]


def seconds(words: list[str]) -> float:
    """Return the processor time of one process, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(words: list[str]) -> None:
    """Print a Markdown table."""
    cases = {"python -c pass": ["-c", "pass"]}
    for command in COMMANDS:
        words = ["-m", "posenc_compare", *command.split()]
        cases[f"posenc-compare {command}"] = words
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS + 1):
        for name, words in cases.items():
            times[name].append(seconds(words))
    medians = {name: statistics.median(taken[1:]) for name, taken in times.items()}
    print("| command | ms | ratio |\n|---|---:|---:|")
    for name, median in medians.items():
        ratio = median / medians["python -c pass"]
        print(f"| `{name}` | {1000 * median:.0f} | {ratio:.1f} |")
