"""Extrapolation: how well does a trained network read texts longer than it saw?

A small decoder is trained on a task at one length and tested at lengths up to 16 times
as long; in language, on the same held-out bytes. `docs/training.md` says how and why.
"""

import torch

from posenc_compare.analysis.core.progress import Progress
from posenc_compare.analysis.core.settings import Training
from posenc_compare.analysis.measures.measure import (
    ByCase,
    Curve,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.analysis.training.decoder import Decoder
from posenc_compare.analysis.training.trainer import Recipe, Trainer, evaluate
from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.registry import TASKS
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.schemes.contract import schemes_for_length

BITS = Quantity(
    "bits_per_byte",
    unit="bits per byte",
    better="lower",
    zero="every held-out byte is foreseen; 8 is a uniform guess",
    x="test length, in bytes",
    title="bits per byte",
)
READ_BITS = Quantity(
    "read_bits_per_byte",
    unit="bits per byte",
    better="lower",
    zero="every held-out byte is foreseen; 8 is a uniform guess",
    x="test length, in bytes",
    title="bits per byte of trained networks, read under a scaling",
)
TRAIN_BITS = Quantity(
    "training_bits",
    unit="bits per byte",
    better="lower",
    zero="every training byte is foreseen (mean of the last tenth of the steps)",
)
ACCURACY = Quantity(
    "accuracy",
    unit="share",
    better="higher",
    zero="no token that counts is foreseen",
    x="test length, in tokens",
    title="accuracy",
)
READ_ACCURACY = Quantity(
    "read_accuracy",
    unit="share",
    better="higher",
    zero="no token that counts is foreseen",
    x="test length, in tokens",
    title="accuracy of trained networks, read under a scaling",
)
TRAIN_TOKEN_BITS = Quantity(
    "training_bits_per_token",
    unit="bits per token",
    better="lower",
    zero="every training token is foreseen (mean of the last tenth of the steps)",
)
# By the score of a task: the score, the score as read in other ways, the loss.
QUANTITIES = {
    "bits_per_byte": (BITS, READ_BITS, TRAIN_BITS),
    "accuracy": (ACCURACY, READ_ACCURACY, TRAIN_TOKEN_BITS),
}
BITS_AT = "bits."  # of a tensor in a checkpoint; behind it length and case
READINGS = 64  # cases at one length, at the most


@register_measure(
    "extrapolation",
    quantities=tuple(quantity for some in QUANTITIES.values() for quantity in some),
    views=(
        Curve(BITS),
        ByCase(READ_BITS, of=BITS),
        Curve(ACCURACY),
        ByCase(READ_ACCURACY, of=ACCURACY),
    ),
    setting="training",
)
def extrapolation(variant: Variant, setting: Training, progress: Progress) -> Result:
    """Score of a trained decoder, from its training length to 16 times it.

    Args:
        variant: the scheme under test.
        setting: network, training, task and seed.
        progress: called after every step.

    Returns:
        One row per test length; where the scheme defines no such positions, a row
        with the reason. Where the scheme can be read in other ways at a length, as a
        rope under a scaling, a row for each with its name as case. Arrays:
        `position_bits` (of other tasks `position_` and the score), the score at every
        position of the longest length that is defined, and `training_bits` of every
        step.
    """
    facts = TASKS.entry(setting.task).facts
    score = facts["score"]
    read, read_otherwise, trained = (quantity.name for quantity in QUANTITIES[score])
    task = TASKS.get(setting.task)(setting)
    autocast = setting.dtype == "bfloat16"
    geometry = Geometry(
        model_dim=setting.width, heads=setting.heads, length=setting.length
    )
    vocabulary = facts["vocabulary"]
    model = Decoder(variant, setting.layers, geometry, setting.seed, vocabulary)
    model.to(setting.device)
    recipe = Recipe(
        setting.steps,
        setting.length,
        setting.learning_rate,
        setting.weight_decay,
        autocast,
        setting.compiled,
    )
    trainer = Trainer(model, task, recipe, setting.seed)
    sizes = {f"{BITS_AT}{length}.": length for length in setting.test_lengths}

    def restore(step: int, tensors: dict[str, torch.Tensor]) -> None:
        bits = _tested(tensors, sizes if step == setting.steps else {})
        trainer.restore(step, {n: t for n, t in tensors.items() if n not in bits})

    limit = trainer.most + 8 * READINGS * sum(setting.test_lengths)
    step, tensors = progress.checkpoints.load(restore, limit)
    progress(step)
    losses = trainer.train(progress)
    last = losses[-max(1, len(losses) // 10) :]
    rows = [Row(trained, sum(last) / len(last))]
    tested = _tested(tensors, sizes)
    at_positions = torch.empty(0)
    for length in setting.test_lengths:
        others = schemes_for_length(model.own, length)
        for case, schemes in {"": model.own, **others}.items():
            quantity = read_otherwise if case else read
            name = f"{BITS_AT}{length}.{case}"
            try:
                if name not in tested:
                    with model.use_schemes(schemes):
                        batch = task.test(length)
                        tested[name] = evaluate(model, batch, autocast, score)
            except UndefinedPositionError as error:
                note = f"not defined beyond {error.limit}"
                rows.append(Row(quantity, None, length, case, note))
                continue
            except ConfigError as error:
                if not case:
                    raise
                rows.append(Row(quantity, None, length, case, str(error)))
                continue
            rows.append(Row(quantity, float(tested[name].mean()), length, case))
            if not case:
                at_positions = tested[name]
            if progress.checkpoints.due():
                progress.checkpoints.save(setting.steps, {**trainer.state(), **tested})
    positions = "position_bits" if score == BITS.name else f"position_{score}"
    arrays = {positions: at_positions.tolist(), "training_bits": losses}
    return Result(rows, arrays, QUANTITIES[score])


def _tested(
    tensors: dict[str, torch.Tensor], sizes: dict[str, int]
) -> dict[str, torch.Tensor]:
    """Return the tensors of a checkpoint that are results of tests.

    Args:
        tensors: by name.
        sizes: how long each is, by how its name begins.

    Raises:
        ValueError: if one is not what a test gives.
    """
    tested = {n: bits for n, bits in tensors.items() if n.startswith(BITS_AT)}
    for name, bits in tested.items():
        size = next((s for start, s in sizes.items() if name.startswith(start)), None)
        if bits.shape != (size,) or bits.dtype != torch.float64:
            raise ValueError(f"{name} is not of this test")
        if not (bits.isfinite() & (bits >= 0)).all():
            raise ValueError(f"{name} must be finite and not negative")
    return tested
