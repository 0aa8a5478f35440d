"""Time and memory of attention and of a step, with a clock that the tests hold."""

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as File

import pytest
import torch
import torch.nn.functional as F
from conftest import Command
from torch import Tensor

from posenc_compare.attention import Session
from posenc_compare.measures import attention_cost as module
from posenc_compare.measures.attention_cost import attention_cost
from posenc_compare.measures.cost import TIMED, WARM, cost
from posenc_compare.measures.measure import Row
from posenc_compare.measures.memory import peak_memory
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Variant
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import Trainer, trainer_of
from posenc_compare.variants import parse_variants

PROBE = Probe(width=32, heads=4, positions=64, dtype="float32")


def rows_of(name: str, probe: Probe = PROBE) -> dict[tuple[str, float | None], Row]:
    found = attention_cost(Variant(name, {}), probe, Progress()).rows
    return {(row.quantity, row.x): row for row in found}


def test_attention_is_timed_after_a_first_round_and_gradients_beside_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    taken = itertools.chain([1000.0, 3.0, 5.0, 10.0], itertools.repeat(5.0))
    plain, kernel, inside = Session.attend, F.scaled_dot_product_attention, [False]

    def attend(self: Session, *given: object, **named: object) -> Tensor:
        clock[0] += next(taken)
        inside[0] = True
        out = plain(self, *given, **named)  # type: ignore[arg-type]
        inside[0] = False
        return out

    def bare(*given: object, **named: object) -> Tensor:
        clock[0] += 0.0 if inside[0] else 2.0
        return kernel(*given, **named)  # type: ignore[arg-type]

    def backward(self: Tensor) -> None:
        clock[0] += 4.0
        torch.autograd.backward(self)

    monkeypatch.setattr(Session, "attend", attend)
    monkeypatch.setattr(F, "scaled_dot_product_attention", bare)
    monkeypatch.setattr(Tensor, "backward", backward)
    monkeypatch.setattr(module, "peak_memory", lambda *_: 3 << 20)
    rows = rows_of("nope", replace(PROBE, positions=2))
    found = {quantity: row.value for (quantity, _), row in rows.items()}
    assert found["forward_ms"] == 5000  # the median of 3, 5 and 10 seconds
    assert found["forward_ratio"] == 2.5
    assert found["gradient_ms"] == 9000
    assert found["gradient_ratio"] == 9 / 6
    assert found["decode_ms"] == 5000
    assert found["decode_ratio"] == 2.5
    assert found["forward_mib"] == found["gradient_mib"] == 3


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("nope", "path fused"),
        ("alibi", "path strided; fused: alibi adds a bias"),
        (
            "fox",
            "path dense; fused: fox adds a bias; strided: fox adds no bias of the "
            "offset",
        ),
    ],
)
def test_a_row_notes_the_path_and_why_no_faster_one(name: str, path: str) -> None:
    assert rows_of(name)["forward_ms", 64].note == path


def test_parameters_are_those_of_one_layer() -> None:
    assert rows_of("rope")["parameters", None].value == 0
    assert rows_of("learned")["parameters", None].value == 64 * 32


def test_memory_is_the_most_that_is_held_at_a_time() -> None:
    def run() -> None:
        for _ in range(3):
            a = torch.empty(1000, dtype=torch.float64)
            b = torch.empty(500, dtype=torch.float64)
            del a, b

    assert peak_memory(run, "cpu") == 12_000


def test_a_scheme_that_writes_all_logits_takes_their_memory() -> None:
    # Four heads of 64 x 64 logits in float32 and their softmax, kept for the gradient.
    least = 2 * 4 * 64 * 64 * 4 / 2**20
    plain, fused = rows_of("shaw"), rows_of("nope")
    assert plain["gradient_mib", 64].value > least  # type: ignore[operator]
    assert fused["gradient_mib", 64].value < least  # type: ignore[operator]


def test_the_command_uses_float32_and_writes_rows(
    posenc: Command, tmp_path: File
) -> None:
    sizes = ("--set", "positions=32,width=16,heads=2")
    done = posenc("cost", "--schemes", "nope,alibi", *sizes, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "attention with gradient / kernel" in done.stdout
    assert "no order" not in done.stdout
    rows = (tmp_path / "rows.csv").read_text()
    assert "path strided; fused: alibi adds a bias" in rows
    (record, *_) = (tmp_path / "cells").iterdir()
    assert '"dtype":"float32"' in record.read_text().replace(" ", "")


# --- a step of training ------------------------------------------------------------

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


def test_a_step_costs_the_median_of_those_timed_beside_nope_and_the_memory_of_one(
    setting: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    load = [100.0] * WARM + [*map(float, range(1, TIMED)), 1e4]  # of the machine
    taken = iter([share * slow for slow in load for share in (1, 3)])
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
    monkeypatch.setattr("posenc_compare.measures.cost.peak_memory", peak_memory)
    found = numbers("nope", setting)
    # Three times the middle of 1 to 11 and one that was disturbed.
    assert found["step_seconds"] == 3 * 6.5
    assert found["step_ratio"] == 3
    assert found["step_memory"] == 5
