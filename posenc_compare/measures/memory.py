"""The most memory that tensors take while something runs."""

from collections.abc import Callable

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile


def peak_memory(run: Callable[[], object], device: str) -> int:
    """Return the most bytes of tensors on a device that a run adds at a time.

    The run is called once.
    """
    if device != "cpu":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        run()
    events = found.profiler.kineto_results.events()  # type: ignore[union-attr]
    events = sorted(
        (event for event in events if event.name() == "[memory]"),
        key=lambda event: event.start_ns(),
    )
    return int(np.max(np.cumsum([0, *(event.nbytes() for event in events)])))  # type: ignore[attr-defined]
