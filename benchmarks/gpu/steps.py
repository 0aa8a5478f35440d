"""Milliseconds and memory of a step of training: plain and compiled."""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import torch

from benchmarks.gpu.common import Options, fault, median_ms, shown, wait_for
from posenc_compare.settings.presets import PRESETS
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.trainer import Trainer, trainer_of
from posenc_compare.variants import parse_variants

WAYS = ("plain", "compiled")
WARM = 4  # steps that compile the network, or record its CUDA graphs
SCHEMES = ("nope", "rope", "alibi", "t5_bias", "fox", "path")


def run(options: Options) -> None:
    """Time a step of each preset."""
    rows: list[dict[str, Any]] = []
    for preset in ("quick",) if options.small else ("quick", "survey", "gpu"):
        for name in options.schemes or SCHEMES:
            for way in ("plain",) if options.small else WAYS:
                row: dict[str, Any] = {"preset": preset, "scheme": name, "way": way}
                try:
                    row |= _timed(name, preset, options, way)
                except Exception as error:
                    row |= fault(error)
                rows.append(row)
                options.keep("steps", rows)
                print(shown(row), flush=True)


def started(name: str, preset: str, device: str, way: str) -> Trainer:
    """Return a trainer whose steps run in one of the ways."""
    (variant,) = parse_variants(name)
    setting = replace(
        PRESETS[preset].training,
        device=device,
        compiled=way == "compiled",
    ).resolve(load_corpus)
    trainer = trainer_of(variant, setting)
    trainer.model.train()
    return trainer


def _timed(name: str, preset: str, options: Options, way: str) -> dict[str, Any]:
    """Return seconds of the first steps, milliseconds of one, and the peak of memory.

    The first ones compile the network and record its CUDA graphs.
    """
    torch.compiler.reset()
    gpu = options.device == "cuda"
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    trainer = started(name, preset, options.device, way)
    setting = PRESETS[preset].training
    steps: Iterator[int] = count()
    for _ in range(WARM):
        trainer.step(next(steps))
    wait_for(options.device)
    first = time.perf_counter() - start
    rounds = 3 if options.small else 20
    ms = median_ms(lambda: trainer.step(next(steps)), options.device, rounds)
    found: dict[str, Any] = {"first_steps_s": first, "step_ms": ms}
    found["tokens_per_s"] = 1e3 * setting.batch * setting.length / ms
    if gpu:
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return found
