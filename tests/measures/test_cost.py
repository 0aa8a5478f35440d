"""What a scheme costs: parameters, time and memory of a step."""

from dataclasses import replace

import pytest

from posenc_compare.measures.cost import cost
from posenc_compare.registry import MEASURES
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import trainer_of
from posenc_compare.variants import parse_variants

SMALL = Training(layers=1, width=32, heads=2, length=16, steps=2, batch=2)


@pytest.fixture(scope="module")
def setting() -> Training:
    return replace(SMALL, corpus_sha256=load_corpus("stdlib").sha256)


def numbers(label: str, setting: Training) -> dict[str, float]:
    (variant,) = parse_variants(label)
    found = cost(variant, setting, Progress()).rows
    return {row.quantity: row.value for row in found if row.value is not None}


@pytest.mark.parametrize(
    ("label", "own"),
    [
        ("learned", 16 * 32),
        ("kerple_log", 2 * 2),  # its layers share it
        ("fox", 3 * (2 * 32 + 2)),
        ("fourier_random", 0),  # its frequencies are drawn and stay
    ],
)
def test_parameters_are_those_of_the_scheme_each_once(
    setting: Training, label: str, own: int
) -> None:
    found = numbers(label, replace(setting, layers=3))
    assert found["scheme_parameters"] == own


def test_memory_grows_with_the_batch_and_with_what_a_scheme_keeps(
    setting: Training,
) -> None:
    plain, large = (
        numbers("nope", replace(setting, batch=batch))["step_memory"]
        for batch in (8, 16)
    )
    trainer = trainer_of(parse_variants("nope")[0], setting)
    weights = 4 * sum(p.numel() for p in trainer.model.parameters()) / 2**20
    logits = 4 * 8 * 16 * 256 / 2**20
    assert plain > 2 * weights + logits  # gradients and activations at the least
    # What a step holds besides is in proportion to the batch.
    assert logits < large - plain < plain
    assert numbers("shaw", replace(setting, batch=8))["step_memory"] > plain


def test_it_runs_alone_and_once() -> None:
    facts = MEASURES.entry("cost").facts
    assert (facts["exclusive"], facts["once"], facts["setting"]) == (
        (True, True, "training")
    )
    repeatable = {
        name: quantity.repeatable
        for name, quantity in MEASURES.get("cost").quantities.items()
    }
    assert repeatable == {
        "scheme_parameters": True,
        "step_seconds": False,
        "step_memory": False,
    }
