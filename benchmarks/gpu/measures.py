"""Seconds of measures of very many positions, after one run that is not timed."""

import time
from typing import Any

import torch

from benchmarks.gpu.common import Options, fault, shown, wait_for
from posenc_compare.measures.probe import Probe
from posenc_compare.registry import MEASURES
from posenc_compare.schemes import Variant
from posenc_compare.train.progress import Progress

NAMES = ("uniqueness", "shift_linearity", "perturbation", "far_keys")
SCHEMES, POSITIONS, WIDTH = ("sinusoidal", "rope", "alibi"), 1_000_000, 128


@torch.no_grad()
def run(options: Options) -> None:
    """Time every measure of a few schemes."""
    rows: list[dict[str, Any]] = []
    count = 512 if options.small else POSITIONS
    probe = Probe(positions=count, width=WIDTH, heads=8, device=options.device)
    for name in NAMES:
        for scheme in options.schemes or SCHEMES:
            row: dict[str, Any] = {"measure": name, "scheme": scheme, "n": count}
            try:
                for _ in range(2):
                    wait_for(options.device)
                    start = time.perf_counter()
                    MEASURES.get(name).compute(Variant(scheme), probe, Progress())
                    wait_for(options.device)
                    row["seconds"] = time.perf_counter() - start
            except Exception as error:
                row |= fault(error)
            rows.append(row)
            options.keep("measures", rows)
            print(shown(row), flush=True)
