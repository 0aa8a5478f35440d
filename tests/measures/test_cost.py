"""What a scheme costs: parameters, time and memory of a step."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from posenc_compare.measures import cost as module
from posenc_compare.measures.cost import cost
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import Trainer, trainer_of
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


def test_a_step_costs_the_median_of_those_timed_and_the_memory_of_one(
    setting: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    taken = iter([100.0] * module.WARM + [*map(float, range(1, module.TIMED)), 1e4])
    steps: list[int] = []
    plain = Trainer.step

    def step(self: Trainer, number: int) -> None:
        steps.append(number)
        clock[0] += next(taken, 0.0)
        plain(self, number)

    def peak_memory(run: Callable[[], object], device: str) -> int:
        nonlocal taken
        kept, taken = taken, iter([])
        run()
        taken = kept
        assert steps == [0]
        return 5 << 20

    monkeypatch.setattr(Trainer, "step", step)
    monkeypatch.setattr(module, "peak_memory", peak_memory)
    found = numbers("nope", setting)
    # The middle of 1 to 11 and one that was disturbed: between the sixth and seventh.
    assert found["step_seconds"] == 6.5
    assert found["step_memory"] == 5
