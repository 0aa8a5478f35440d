"""Milliseconds and memory of a step of training, as it is and compiled."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import torch

from benchmarks.gpu.common import Options, fault, median_ms, shown, wait_for
from posenc_compare.analysis.settings.presets import PRESETS
from posenc_compare.analysis.training.corpus import load_corpus
from posenc_compare.analysis.training.trainer import trainer_of
from posenc_compare.variants import parse_variants

SCHEMES = ("nope", "rope", "alibi", "t5_bias", "fox", "path")


def run(options: Options) -> None:
    """Time a step of each preset."""
    rows: list[dict[str, Any]] = []
    for preset in ("quick",) if options.small else ("quick", "gpu"):
        for name in options.schemes or SCHEMES:
            for compiled in (False,) if options.small else (False, True):
                row: dict[str, Any] = {"preset": preset, "scheme": name}
                row["compiled"] = compiled
                try:
                    row |= _timed(name, preset, options, compiled=compiled)
                except Exception as error:
                    row |= fault(error)
                rows.append(row)
                options.keep("steps", rows)
                print(shown(row), flush=True)


def stepper(
    name: str, preset: str, device: str, *, compiled: bool
) -> tuple[Callable[[int], None], int]:
    """Return what takes a step of training, and how many tokens it reads."""
    (variant,) = parse_variants(name)
    setting = replace(PRESETS[preset].training, device=device, compiled=compiled)
    setting = setting.resolve(load_corpus)
    trainer = trainer_of(variant, setting)
    trainer.model.train()
    network = torch.compile(trainer.model) if compiled else trainer.model
    return lambda step: trainer._step(network, step), setting.batch * setting.length


def _timed(
    name: str, preset: str, options: Options, *, compiled: bool
) -> dict[str, float]:
    """Return seconds of the first step, milliseconds of one, and the peak of memory."""
    torch.compiler.reset()
    gpu = options.device == "cuda"
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    step, tokens = stepper(name, preset, options.device, compiled=compiled)
    steps: Iterator[int] = count()
    step(next(steps))
    wait_for(options.device)
    first = time.perf_counter() - start
    rounds = 3 if options.small else 20
    ms = median_ms(lambda: step(next(steps)), options.device, rounds)
    found = {"first_step_s": first, "step_ms": ms, "tokens_per_s": 1e3 * tokens / ms}
    if gpu:
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return found
