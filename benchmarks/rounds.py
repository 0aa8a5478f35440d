"""Rounds of cases: each runs once in every round, in turn, so that noise meets all.

Times are processor-bound and noisy; what is kept are medians and quartiles of ratios to
the floor of the same round.
"""

import hashlib
import importlib.metadata
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from posenc_compare.measures.memory import peak_memory
from posenc_compare.run.provenance import place

RECORDS = Path(__file__).parent / "records"
FLOOR = "floor"
PEERS = ("transformers", "x-transformers", "torchtune", "torchembed", "attn-gym")
Run = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """What was seen of one case.

    Attributes:
        case: its name.
        ms: median of a run, milliseconds.
        ratio: median ratio to the floor of the same round.
        low: first quartile of that.
        high: third quartile.
        mib: most MiB of tensors that a run adds, if that was asked for.
    """

    case: str
    ms: float
    ratio: float
    low: float
    high: float
    mib: float | None


def timed(cases: Mapping[str, Run], rounds: int, memory: bool = True) -> list[Timing]:
    """Return the timing of every case, of which `floor` is one.

    Of each, `rounds` runs count, and one before them warms up. For `memory`, each runs
    once more.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds + 1):
        for name, run in cases.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    floor = seconds[FLOOR][1:]
    found = []
    for name, run in cases.items():
        own = seconds[name][1:]
        ratios = [one / bare for one, bare in zip(own, floor, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        mib = peak_memory(run, "cpu") / 2**20 if memory else None
        ms = 1e3 * statistics.median(own)
        found.append(Timing(name, ms, middle, low, high, mib))
    return found


def shown(columns: dict[str, list[Timing]]) -> str:
    """Return a Markdown table of ratios with quartiles, a column for each setting."""
    names = list(dict.fromkeys(t.case for timings in columns.values() for t in timings))
    cells = {
        (title, t.case): f"{t.ratio:.2f} ({t.low:.2f}-{t.high:.2f})"
        for title, timings in columns.items()
        for t in timings
    }
    lines = [f"| case | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name in names:
        row = [cells.get((title, name), "n/a") for title in columns]
        lines.append(f"| {name} | {' | '.join(row)} |")
    return "\n".join(lines)


def kept(name: str, columns: dict[str, list[Timing]], **setting: object) -> None:
    """Write a benchmark with machine, versions and date as a record, and show it."""
    parts = (Path(__file__), Path(__file__).with_name(f"{name}.py"))
    source, versions = b"".join(part.read_bytes() for part in parts), {}
    for peer in PEERS:
        try:
            versions[peer] = importlib.metadata.version(peer)
        except importlib.metadata.PackageNotFoundError:
            versions[peer] = "not installed"
    body = {
        "benchmark": name,
        "date": time.strftime("%Y-%m-%d"),
        "machine": {**place(), "threads": torch.get_num_threads(), **versions},
        "benchmark_sha256": hashlib.sha256(source).hexdigest(),
        "setting": setting,
        "columns": {
            title: [asdict(timing) for timing in timings]
            for title, timings in columns.items()
        },
    }
    RECORDS.mkdir(exist_ok=True)
    text = json.dumps(body, indent=1, default=str)
    (RECORDS / f"{name}.json").write_text(text + "\n")
    print(shown(columns))
