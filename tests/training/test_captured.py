"""Captured steps: the numbers of plain ones, or plain ones and a reason.

A CUDA graph needs a GPU. `support.recorded` does on a CPU what it would do: it freezes
whatever Python decides, so that a step which is not the same every time goes wrong.
"""

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.recorded import Recordings
from torch import Tensor

from posenc_compare.analysis.core.progress import Progress
from posenc_compare.analysis.measures.extrapolation import extrapolation
from posenc_compare.analysis.settings.training import Training
from posenc_compare.analysis.training import trainer
from posenc_compare.analysis.training.captured import Captured, Fed
from posenc_compare.analysis.training.corpus import load_corpus
from posenc_compare.analysis.training.decoder import ids_of
from posenc_compare.analysis.training.trainer import Trainer, trainer_of
from posenc_compare.conformance import built_in
from posenc_compare.errors import ConfigError
from posenc_compare.registry import SCHEMES
from posenc_compare.transfer import Sent, remembering, sent
from posenc_compare.variants import parse_variants

CPU = torch.device("cpu")
NAMES = [n for n in built_in() if SCHEMES.entry(n).facts.get("axes", 1) == 1]
SETTING = Training(
    task="copy",
    width=32,
    heads=2,
    length=16,
    steps=7,
    batch=2,
    longest=1,
    test_bytes=64,
    captured=True,
)
DRAWN = "the scheme draws in every step"
DRAWING = {"cape", "pose", "randomized", "randomized_distance", "shape"}


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Recordings:
    """Let the CPU record steps, and AdamW keep its count of steps in memory."""
    found = Recordings()
    monkeypatch.setattr(trainer, "graphs_for", lambda device: found)
    monkeypatch.setattr(
        importlib.import_module("torch.optim.adam"),
        "_get_capturable_supported_devices",
        lambda **_: ["cpu"],
    )
    return found


def started(label: str = "rope", **changes: Any) -> Trainer:
    (variant,) = parse_variants(label)
    return trainer_of(variant, replace(SETTING, **changes).resolve(load_corpus))


def why(made: Trainer) -> str:
    assert made.captured is not None
    return made.captured.why


def weights(made: Trainer) -> dict[str, Tensor]:
    return {n: t.clone() for n, t in made.model.state_dict().items()}


def plainly(label: str, **changes: Any) -> tuple[list[float], dict[str, Tensor]]:
    """Return losses and weights of steps as they are, with the same optimiser."""
    made = started(label, **changes)
    assert made.captured is not None
    made.captured.why = "not asked for"
    return made.train(Progress()), weights(made)


@pytest.mark.parametrize("name", NAMES)
def test_captured_steps_have_the_numbers_of_plain_ones(
    name: str, graphs: Recordings
) -> None:
    wanted, there = plainly(name)
    made = started(name)
    assert made.train(Progress()) == wanted
    found = weights(made)
    assert all(torch.equal(found[n], there[n]) for n in there)
    assert why(made) == (DRAWN if name in DRAWING else "")
    assert graphs.recorded == (0 if name in DRAWING else 2)


@pytest.mark.parametrize("task", ["recall", "parity", "language"])
def test_batches_with_weights_and_of_texts_are_read_anew(
    task: str, graphs: Recordings, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(b"the quick brown fox jumps over the lazy dog. " * 400)
    given = {"task": task, "corpus": str(text), "dtype": "bfloat16"}
    wanted, _ = plainly("nope", **given)
    made = started("nope", **given)
    assert made.train(Progress()) == wanted
    assert (why(made), graphs.recorded) == ("", 2)


def test_dropped_positions_are_recorded_anew(graphs: Recordings) -> None:
    wanted, there = plainly("rope", steps=14, drop=0.5)
    made = started("rope", steps=14, drop=0.5)
    assert made.train(Progress()) == wanted
    assert all(torch.equal(t, there[n]) for n, t in weights(made).items())
    assert (why(made), graphs.recorded) == ("", 4)


def test_a_training_that_was_stopped_goes_on(graphs: Recordings) -> None:
    wanted, _ = plainly("learned", steps=12)
    first, second = started("learned", steps=12), started("learned", steps=12)
    for step in range(5):
        first.step(step)
    second.restore(5, {n: t.clone() for n, t in first.state().items()})
    assert second.train(Progress()) == wanted
    assert (why(second), graphs.recorded) == ("", 4)


def test_the_optimiser_is_another_only_where_steps_are_recorded() -> None:
    made = started("rope")
    assert not made.optimiser.defaults["capturable"]
    assert made.train(Progress()) == started("rope", captured=False).train(Progress())
    assert why(made) == "a CPU has no CUDA graphs"


def test_the_record_says_why_steps_ran_as_they_are() -> None:
    (variant,) = parse_variants("rope")
    result = extrapolation(variant, SETTING, Progress())
    (row,) = (r for r in result.rows if r.quantity == "training_bits_per_token")
    assert row.note == "not all steps were captured: a CPU has no CUDA graphs"
    plain = extrapolation(variant, replace(SETTING, captured=False), Progress())
    assert not any(row.note for row in plain.rows)


def test_a_compiled_network_is_not_captured() -> None:
    with pytest.raises(ConfigError, match="captured must be False where compiled is"):
        replace(SETTING, compiled=True)


class Same:
    """Steps that do what a test wants, and count how often they run."""

    def __init__(self, read: Callable[[Fed], Tensor]) -> None:
        self.read = read
        self.runs = 0

    def gradients(self, fed: Fed) -> tuple[Tensor, Tensor]:
        self.runs += 1
        return self.loss(fed), torch.ones(())

    def update(self, norm: Tensor) -> None:
        pass

    def loss(self, fed: Fed) -> Tensor:
        return self.read(fed).double().sum()


def given(step: int, size: int = 4, start: int = 0) -> Fed:
    tokens = torch.full((1, size), step + 1)
    places = torch.arange(start, start + size)
    return Fed(tokens, tokens.reshape(-1), None, places, ids_of(0, step))


def losses(steps: Captured, batches: list[Fed]) -> list[float]:
    """Return the loss of each step."""
    found = []
    for fed in batches:
        loss, norm = steps.gradients(fed)
        steps.update(norm)
        found.append(float(loss))
    return found


PLAIN = [4.0 * (step + 1) for step in range(8)]  # sums of the tokens
OTHER = "batches differ in size or in positions"


@pytest.mark.parametrize(
    ("batches", "wanted", "reason"),
    [
        ([given(n) for n in range(8)], PLAIN, ""),
        ([given(n) for n in range(7)] + [given(7, 2)], [*PLAIN[:7], 16.0], OTHER),
        ([given(n, 4, n // 6) for n in range(8)], PLAIN, OTHER),
    ],
    ids=["alike", "another size", "other positions"],
)
def test_batches_that_do_not_fit_are_read_plainly(
    batches: list[Fed], wanted: list[float], reason: str
) -> None:
    plain = Same(lambda fed: fed.tokens)
    steps = Captured(plain, Recordings())
    assert losses(steps, batches) == wanted
    assert steps.why == reason
    assert plain.runs == (4 if not reason else 6 if len(batches[-1].targets) > 2 else 5)


def test_what_is_sent_anew_in_each_step_is_seen() -> None:
    numbers = iter(range(100))
    steps = Captured(
        Same(lambda fed: fed.tokens * sent(torch.tensor(next(numbers)), CPU)),
        Recordings(),
    )
    batches = [given(step) for step in range(8)]
    assert losses(steps, batches) == [n * loss for n, loss in enumerate(PLAIN)]
    assert steps.why == "what is sent to the GPU differs from step to step"


def test_what_is_sent_anew_while_recording_is_seen() -> None:
    numbers = iter([1, 1, 1, *range(2, 100)])
    steps = Captured(
        Same(lambda fed: fed.tokens * sent(torch.tensor(next(numbers)), CPU)),
        Recordings(),
    )
    found = losses(steps, [given(step) for step in range(8)])
    assert found[:3] == PLAIN[:3]
    assert found[3:] == [n * loss for n, loss in enumerate(PLAIN[3:], start=3)]
    assert steps.why == (
        "a step cannot be recorded: RuntimeError: another tensor is sent than in the "
        "steps before"
    )


def test_a_step_in_which_the_host_waits_is_not_recorded() -> None:
    def read(fed: Fed) -> Tensor:
        return fed.tokens * float(fed.tokens.double().sum() * 0 + 1)

    recordings = Recordings()
    steps = Captured(Same(read), recordings)
    assert losses(steps, [given(step) for step in range(8)]) == PLAIN
    assert steps.why == (
        "the host waits in a step: RuntimeError: called a synchronizing CUDA operation"
    )
    assert recordings.recorded == 0


def test_a_step_that_fails_raises_what_it_raised() -> None:
    def read(fed: Fed) -> Tensor:
        raise RuntimeError("on purpose")

    steps = Same(read)
    with pytest.raises(RuntimeError, match="on purpose"):
        losses(Captured(steps, Recordings()), [given(0)])
    assert steps.runs == 1


def test_a_recording_that_ends_badly_says_what_ended_it() -> None:
    class Bad(Recordings):
        def record(self, part: Callable[[], object]) -> Any:
            try:
                raise ValueError("what ended it")
            finally:
                raise RuntimeError("over it")

    steps = Captured(Same(lambda fed: fed.tokens), Bad())
    assert losses(steps, [given(step) for step in range(8)]) == PLAIN
    assert steps.why == "a step cannot be recorded: ValueError: what ended it"


def test_a_number_of_python_that_changes_is_seen_by_the_first_replay() -> None:
    numbers = iter(range(100))
    steps = Captured(Same(lambda fed: fed.tokens + next(numbers)), Recordings())
    found = losses(steps, [given(step) for step in range(6)])
    assert found[:3] == [4.0, 12.0, 20.0]
    assert steps.why == "a loss was 28.0 when replayed, not 32.0"


def test_a_replay_that_reads_an_old_batch_is_seen() -> None:
    frozen = given(2).tokens

    def read(fed: Fed) -> Tensor:
        return fed.tokens if fed.ids.initial_seed() != seed else frozen

    seed = given(2).ids.initial_seed()
    steps = Captured(Same(read), Recordings())
    assert losses(steps, [given(step) for step in range(8)]) == PLAIN
    assert steps.why == "a loss was 12.0 when replayed, not 16.0"


def test_what_was_sent_is_given_back_only_if_it_is_the_same() -> None:
    kept = Sent()
    one, other = torch.arange(3), torch.arange(3).double()
    with remembering(kept):
        first = sent(one, CPU)
    with remembering(kept):
        assert sent(one.clone(), CPU) is first
    assert not kept.differs
    with remembering(kept):
        assert torch.equal(sent(other, CPU), other)  # equal numbers, another dtype
    assert kept.differs
    assert sent(other, CPU) is other  # nothing is remembered any more


def test_what_was_not_sent_in_the_first_run_differs() -> None:
    kept = Sent()
    with remembering(kept):
        pass
    with remembering(kept):
        sent(torch.arange(3), CPU)
    assert kept.differs
