"""Cost: what a scheme adds to the parameters, the time and the memory of a step.

A few steps of the training that `extrapolation` does are taken, and timed. Nothing else
computes beside them.
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
from posenc_compare.train.trainer import trainer_of

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
    quantities=(PARAMETERS, SECONDS, MEMORY),
    views=(Headline(PARAMETERS), Headline(SECONDS), Headline(MEMORY)),
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
        Three rows: the trained parameters of the scheme, the median time of a step,
        and the most memory that a step holds beyond weights and batch, with gradients
        and the moments of the optimiser. Memory is that of tensors on the device.
    """
    some = replace(setting, steps=WARM + TIMED, drop=0.0)
    trainer = trainer_of(variant, some)
    own = {
        id(parameter): parameter.numel()
        for scheme in trainer.model.own
        for parameter in scheme.parameters()
        if parameter.requires_grad
    }
    peak = _peak(variant, replace(some, steps=1))
    ends: list[float] = []

    def end(units: int) -> None:
        if setting.device != "cpu":
            torch.cuda.synchronize(setting.device)
        ends.append(time.perf_counter())
        progress(units)

    trainer.train(Progress(end))
    seconds = float(np.median(np.diff(ends[WARM - 1 :])))
    return Result(
        [
            Row(PARAMETERS.name, sum(own.values())),
            Row(SECONDS.name, seconds),
            Row(MEMORY.name, peak / 2**20),
        ]
    )


def _peak(variant: Variant, setting: Training) -> int:
    """Return the most bytes that the first step of a training holds at a time."""
    trainer = trainer_of(variant, setting)
    return peak_memory(lambda: trainer.train(Progress()), setting.device)
