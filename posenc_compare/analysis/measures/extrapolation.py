"""Extrapolation: how well does a trained network read texts longer than it saw?

A small decoder is trained at one length and tested, on the same held-out bytes, at
lengths up to 16 times as long. `docs/training.md` says how and why.
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
from posenc_compare.analysis.training.corpus import load_corpus
from posenc_compare.analysis.training.decoder import Decoder
from posenc_compare.analysis.training.trainer import Recipe, Trainer, evaluate
from posenc_compare.errors import ConfigError, CorpusError, UndefinedPositionError
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.schemes.contract import readers_at

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
BITS_AT = "bits."  # of a tensor in a checkpoint; behind it length and case
READINGS = 64  # cases at one length, at the most


@register_measure(
    "extrapolation",
    quantities=(BITS, READ_BITS, TRAIN_BITS),
    views=(Curve(BITS), ByCase(READ_BITS)),
    setting="training",
)
def extrapolation(variant: Variant, setting: Training, progress: Progress) -> Result:
    """Bits per byte of a trained decoder, from its training length to 16 times it.

    Args:
        variant: the scheme under test.
        setting: network, training, corpus and seed.
        progress: called after every step.

    Returns:
        One row per test length; where the scheme defines no such positions, a row
        with the reason. Where the scheme can be read in other ways at a length, as a
        rope under a scaling, a row for each with its name as case. Arrays:
        `position_bits`, the bits at every position of the longest length that is
        defined, and `training_bits` of every step.
    """
    corpus = load_corpus(setting.corpus)
    if corpus.sha256 != setting.corpus_sha256:
        raise CorpusError(
            f"corpus {corpus.name}: sha256 must be {setting.corpus_sha256}, "
            f"got {corpus.sha256}; it has changed since this run was planned"
        )
    windows = torch.from_numpy(
        corpus.test_windows(setting.test_lengths[-1], setting.test_bytes)
    )
    autocast = setting.dtype == "bfloat16"
    geometry = Geometry(
        model_dim=setting.width, heads=setting.heads, length=setting.length
    )
    model = Decoder(variant, setting.layers, geometry, setting.seed)
    model.to(setting.device)
    recipe = Recipe(
        setting.steps,
        setting.batch,
        setting.length,
        setting.learning_rate,
        setting.weight_decay,
        autocast,
        setting.compiled,
    )
    trainer = Trainer(model, corpus, recipe, setting.seed)
    sizes = {f"{BITS_AT}{length}.": length for length in setting.test_lengths}

    def restore(step: int, tensors: dict[str, torch.Tensor]) -> None:
        bits = _tested(tensors, sizes if step == setting.steps else {})
        trainer.restore(step, {n: t for n, t in tensors.items() if n not in bits})

    limit = trainer.most + 8 * READINGS * sum(setting.test_lengths)
    step, tensors = progress.checkpoints.load(restore, limit)
    progress(step)
    losses = trainer.train(progress)
    last = losses[-max(1, len(losses) // 10) :]
    rows = [Row(TRAIN_BITS.name, sum(last) / len(last))]
    tested = _tested(tensors, sizes)
    position_bits = torch.empty(0)
    for length in setting.test_lengths:
        readers = readers_at(model.own, length)
        for case, schemes in {"": model.own, **readers}.items():
            quantity = READ_BITS.name if case else BITS.name
            name = f"{BITS_AT}{length}.{case}"
            try:
                if name not in tested:
                    with model.read_with(schemes):
                        tested[name] = evaluate(model, windows, length, autocast)
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
                position_bits = tested[name]
            if progress.checkpoints.due():
                progress.checkpoints.save(setting.steps, {**trainer.state(), **tested})
    arrays = {"position_bits": position_bits.tolist(), "training_bits": losses}
    return Result(rows, arrays)


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
