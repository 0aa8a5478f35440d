"""What the parts share: options, where they write, and how they time."""

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from posenc_compare.check import built_in
from posenc_compare.errors import PosencError
from posenc_compare.registry import SCHEMES

WARM = 3  # runs before any is timed
TEXT = 300  # characters of an error


@dataclass(frozen=True)
class Options:
    """What a user asks for.

    Attributes:
        device: cuda, or cpu for a dry run.
        small: sizes of a dry run.
        schemes: names; empty for all.
        processes: at a time, where each scheme has one.
        limit: seconds of such a process.
        out: folder of what is found.
    """

    device: str = "cuda"
    small: bool = False
    schemes: tuple[str, ...] = ()
    processes: int = 8
    limit: float = 150.0
    out: Path = Path("runs/gpu")

    def names(self, most: int = 1) -> list[str]:
        """Return the schemes, of at most so many axes."""
        return list(self.schemes) or [
            name
            for name in built_in()
            if SCHEMES.entry(name).facts.get("axes", 1) <= most
        ]

    def keep(self, part: str, found: object) -> None:
        """Write what a part has found so far."""
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{part}.json"
        path.write_text(json.dumps(found, indent=0, default=str))


def wait_for(device: str) -> None:
    """Wait until a device has done all that it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def median_ms(run: Callable[[], object], device: str, rounds: int = 20) -> float:
    """Return the median milliseconds of a run, by the events of a GPU if it is one."""
    for _ in range(WARM):
        run()
    taken = []
    for _ in range(rounds):
        wait_for(device)
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end))
        else:
            start = time.perf_counter()
            run()
            taken.append(1e3 * (time.perf_counter() - start))
    return statistics.median(taken)


def fault(error: Exception) -> dict[str, Any]:
    """Return what a row says of an error, in one line."""
    kind = "refused" if isinstance(error, PosencError) else "error"
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return {kind: text[:TEXT]}


def shown(row: dict[str, Any]) -> str:
    """Return a row in one line."""
    return "  ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in row.items()
    )
