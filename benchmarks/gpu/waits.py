"""Where one step of training makes the host wait, as torch itself warns, by line."""

import warnings
from collections import Counter
from pathlib import Path

import torch

from benchmarks.gpu.common import Options, fault
from benchmarks.gpu.steps import started


def run(options: Options) -> None:
    """Count the warnings of the second step of every scheme."""
    if options.device != "cuda":
        print("waits: torch warns of them on a GPU alone")
        return
    found: dict[str, object] = {}
    for name in options.names():
        try:
            trainer = started(name, "quick", options.device, "plain")
            trainer.step(0)
            torch.cuda.set_sync_debug_mode("warn")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                trainer.step(1)
            found[name] = Counter(
                f"{Path(one.filename).name}:{one.lineno}"
                for one in caught
                if "synchroniz" in str(one.message)
            )
        except Exception as error:
            found[name] = fault(error)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        options.keep("waits", found)
    for name, lines in found.items():
        print(f"{name:20s} {lines}")
