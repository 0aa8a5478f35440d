"""Cost: what a scheme adds to the parameters, the time and the memory of a step.

A few steps of the training that `extrapolation` does are taken, and timed. Nothing else
of the run computes beside them. Steps with the scheme and with `nope` take turns, so
that their ratio does not depend on what else the machine does.
"""

import time
from dataclasses import replace

import numpy as np
import torch

from posenc_compare.measures.measure import (
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.memory import peak_memory
from posenc_compare.schemes import Variant
from posenc_compare.settings.training import Training
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import Trainer, trainer_of

WARM, TIMED = 3, 12  # steps
PARAMETERS = Quantity(
    "scheme_parameters",
    unit="numbers",
    better="lower",
    zero="the scheme learns nothing",
    title="parameters of the scheme",
)
SECONDS = Quantity(
    "step_seconds",
    unit="seconds",
    better="lower",
    zero="a step of training takes no time",
    title="seconds a step",
    repeatable=False,
)
RATIO = Quantity(
    "step_ratio",
    unit="time of a step with nope",
    better="lower",
    zero="never; 1 is the time of a step with nope",
    title="time of a step, relative to nope",
    repeatable=False,
)
MEMORY = Quantity(
    "step_memory",
    unit="MiB",
    better="lower",
    zero="a step allocates nothing",
    title="MiB a step",
    repeatable=False,
)


@register_measure(
    "cost",
    quantities=(PARAMETERS, SECONDS, RATIO, MEMORY),
    views=tuple(map(Headline, (PARAMETERS, SECONDS, RATIO, MEMORY))),
    setting="training",
    once=True,
    exclusive=True,
)
def cost(variant: Variant, setting: Training, progress: Progress) -> Result:
    """Parameters of a scheme, and time and memory of a step of training with it.

    Args:
        variant: the scheme under test.
        setting: network, training and task; a few of the steps are taken, before any
            that drop positions.
        progress: called after every step.

    Returns:
        Four rows: the trained parameters of the scheme; the median time of a step; the
        median of its ratios to the step with `nope` before it; and the most memory that
        a step holds beyond weights and batch, with gradients and the moments of the
        optimiser. Memory is that of tensors on the device.
    """
    some = replace(setting, steps=WARM + TIMED, drop=0.0)
    plain, own = trainer_of(Variant("nope"), some), trainer_of(variant, some)
    trained = {
        id(parameter): parameter.numel()
        for scheme in own.model.own
        for parameter in scheme.parameters()
        if parameter.requires_grad
    }
    peak = _peak(variant, replace(some, steps=1))
    taken: list[tuple[float, float]] = []
    for number in range(some.steps):
        taken.append((_seconds(plain, number), _seconds(own, number)))
        progress(1)
    before, after = np.array(taken[WARM:]).T
    return Result(
        [
            Row(PARAMETERS.name, sum(trained.values())),
            Row(SECONDS.name, float(np.median(after))),
            Row(RATIO.name, float(np.median(after / before))),
            Row(MEMORY.name, peak / 2**20),
        ]
    )


def _seconds(trainer: Trainer, number: int) -> float:
    """Return how long a step takes."""
    start = time.perf_counter()
    trainer.step(number)
    if trainer.device.type != "cpu":
        torch.cuda.synchronize(trainer.device)
    return time.perf_counter() - start


def _peak(variant: Variant, setting: Training) -> int:
    """Return the most bytes that the first step of a training holds at a time."""
    trainer = trainer_of(variant, setting)
    return peak_memory(lambda: trainer.train(Progress()), setting.device)
