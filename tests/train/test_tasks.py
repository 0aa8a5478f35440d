"""Tasks: what they ask, and what a perfect, a constant and a random answer score."""

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, PluginError
from posenc_compare.registry import TASKS
from posenc_compare.run.comparison import plan_comparison
from posenc_compare.schemes import Variant
from posenc_compare.settings.training import Training
from posenc_compare.tasks.task import Batch, Task, check_task
from posenc_compare.train import token_scores
from posenc_compare.train.evaluation import by_place, exact_match
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import trainer_of

SCORED = [  # of images see `test_images.py`, too
    name
    for name in TASKS.select("accuracy")
    if TASKS.entry(name).facts["network"] == "decoder"
]
WITH_ANSWERS = pytest.mark.parametrize("name", SCORED)
EVERY = pytest.mark.parametrize("name", [*SCORED, "shapes", "digits"])
LENGTH = 16


def task_of(name: str, **more: object) -> Task:
    if name == "digits":
        pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    sizes = {"length": LENGTH, "longest": 4, "batch": 64, "test_bytes": 1 << 14}
    return TASKS.get(name)(Training(task=name, **{**sizes, **more}))


def score(said: Tensor, batch: Batch) -> float:
    """Return the accuracy of what is said at every place."""
    return float(by_place((said == batch.targets).float(), batch).mean())


def counting(batch: Batch) -> Tensor:
    assert batch.weights is not None
    return batch.weights > 0


@EVERY
def test_batches_can_be_read_and_every_sequence_asks_something(name: str) -> None:
    task = task_of(name, test_bytes=1 << 10)
    check_task(task)
    if name in SCORED:
        for batch in (task.batch(0, 0), task.test(LENGTH), task.test(4 * LENGTH)):
            assert counting(batch).any(dim=1).all()


@pytest.mark.parametrize(
    ("part", "change", "said"),
    [
        ("tokens", lambda x: x.tolist(), "tokens a tensor (COUNT, 16), got list"),
        ("tokens", lambda x: x[0, 0], "tokens a tensor (COUNT, 16), got ()"),
        ("tokens", lambda x: x[:, 1:], "tokens a tensor (COUNT, 16), got (COUNT, "),
        ("tokens", lambda x: x[:0], "tokens a tensor (COUNT, 16), got (0, 16)"),
        ("tokens", lambda x: x + 99, "from 0 to 47, the vocabulary, go"),
        ("targets", lambda x: x[:, 1:], "targets a tensor (COUNT, 16), got ("),
        ("targets", lambda x: x.float(), "vocabulary, got torch.float32 "),
        ("targets", lambda x: x - 99, "from 0 to 47, the vocabulary, "),
        ("weights", lambda x: 0 * x, "and some above 0, got 0 to 0"),
        ("weights", lambda x: -x, "weights of 0 or more, and some ab"),
        ("weights", lambda x: x / 0, "weights of 0 or more, and some"),
        ("weights", lambda x: x[1:], "weights a tensor (COUNT, 16), got ("),
        (
            "positions",
            lambda _: torch.zeros(2, 16),
            "s a tensor (16,), got (2, 16)",
        ),
        ("positions", lambda _: np.arange(16), "positions a tensor (16,), got ndarray"),
        ("", lambda _: None, "must return a Batch, got NoneType"),
    ],
)
@pytest.mark.parametrize("method", ["batch", "test"])
def test_a_batch_that_networks_cannot_read_is_refused(
    part: str, change: Callable[[Any], Any], said: str, method: str
) -> None:
    task = task_of("recall", test_bytes=1 << 10)
    right = getattr(task, method)

    def changed(*what: int) -> Batch | None:
        batch = right(*what)
        return replace(batch, **{part: change(getattr(batch, part))}) if part else None

    setattr(task, method, changed)
    with pytest.raises(PluginError) as caught:
        check_task(task)
    who = "recall: batch(0, seed)" if method == "batch" else f"recall: test({LENGTH})"
    assert str(caught.value).startswith(f"{who} must ")
    pattern = re.escape(said).replace("COUNT", r"\d+")
    assert re.search(pattern, str(caught.value))


def test_a_later_batch_of_an_own_task_is_refused_at_its_step() -> None:
    trainer = trainer_of(Variant("nope"), task_of("recall").setting)
    right = trainer.task.batch
    trainer.own_task = True
    trainer.task.batch = lambda step, seed: (  # type: ignore[method-assign]
        replace(right(step, seed), weights=torch.full((64, LENGTH), 1.0 - step))
    )
    with pytest.raises(PluginError, match=r"recall: batch\(1, seed\) must have weigh"):
        trainer.train(Progress())


def test_every_test_of_an_own_task_is_checked() -> None:
    trainer = trainer_of(Variant("nope"), task_of("recall", test_bytes=1 << 10).setting)
    batch = trainer.task.test(LENGTH)
    tests = token_scores.Tests(trainer, "accuracy", batch.tokens.numel(), [LENGTH])
    trainer.own_task = True
    tests.run(batch, "sliding", trainer.model.own, Progress())
    for change, said in (
        ({"tokens": batch.tokens + 99}, "tokens in int64 from 0 to 47"),
        ({"targets": batch.targets[:, 1:]}, "targets .* got"),
    ):
        with pytest.raises(PluginError, match=f"recall: test 'other' must have {said}"):
            tests.run(replace(batch, **change), "other", trainer.model.own, Progress())


@pytest.mark.parametrize("what", ["variation", "floor"])
def test_variations_and_floors_are_of_the_test_length(what: str) -> None:
    task = task_of("recall", test_bytes=1 << 10)
    short = task.test(LENGTH)
    if what == "variation":
        task.variations = lambda length: {"harder": short}  # type: ignore[method-assign]
    else:
        task.floors = lambda length: {"guess": short.weights[:, :1]}  # type: ignore
    with pytest.raises(PluginError, match=f"recall: {what} '(harder|guess)' must "):
        check_task(task)


@pytest.mark.parametrize("documents", [[0, 0, 1], np.arange(16), None])
def test_documents_are_those_of_the_longest_test(documents: Any) -> None:
    task = task_of("recall", test_bytes=1 << 10)
    task.documents = documents
    with pytest.raises(PluginError, match="documents must be a list of 16 numbers"):
        check_task(task)


@pytest.mark.parametrize(
    ("name", "length", "works"),
    [
        *(("grid_lookup", 10, 16), ("grid_lookup", 17, 20), ("passkey", 8, 9)),
        ("lookahead", 3, 4),
        *(("addition", 4, 5), ("copy", 1, 2), ("recall", 2, 3)),
    ],
)
def test_a_length_that_holds_no_sequence_is_refused(
    name: str, length: int, works: int
) -> None:
    sizes: dict[str, Any] = {"tasks": name, "measures": "extrapolation"}
    said = f"length must hold a sequence of {name}, got {length}; --set length={works} "
    with pytest.raises(ConfigError, match=said):
        plan_comparison("nope", **sizes, length=length)
    assert plan_comparison("nope", **sizes, length=works).cells


def test_a_task_that_tests_another_length_is_refused_before_training() -> None:
    task = task_of("recall")
    at_l = task.test(LENGTH)
    task.test = lambda length: at_l  # type: ignore[method-assign]
    with pytest.raises(PluginError, match=rf"test\(32\) must .* got \(\d+, {LENGTH}\)"):
        check_task(task)


@EVERY
def test_sequences_depend_on_seed_and_step_alone(name: str) -> None:
    first, again, later, other = (
        task_of(name).batch(step, seed)
        for step, seed in ((0, 0), (0, 0), (1, 0), (0, 1))
    )
    assert first.tokens.equal(again.tokens)
    assert first.targets.equal(again.targets)
    assert not first.tokens.equal(later.tokens)
    assert not first.tokens.equal(other.tokens)
    test, checked, again = (
        task_of(name, split=s, test_bytes=1 << 10).test(LENGTH)
        for s in ("test", "validation", "test")
    )
    assert not test.tokens.equal(checked.tokens)
    assert test.tokens.equal(again.tokens)


@WITH_ANSWERS
@pytest.mark.parametrize("times", [1, 4])
def test_a_perfect_answer_has_everything(name: str, times: int) -> None:
    batch = task_of(name).test(times * LENGTH)
    perfect = torch.tensor(SOLVERS[name](batch))
    # Far nearer than one wrong token would be; a sum of shares is 1 up to rounding.
    assert score(perfect, batch) == pytest.approx(1, abs=1e-9)
    assert exact_match((perfect == batch.targets).float(), batch) == 1
    wrong = torch.where(torch.arange(len(perfect))[:, None] % 2 == 0, perfect, -1)
    assert exact_match((wrong == batch.targets).float(), batch) == pytest.approx(
        0.5, abs=0.01
    )


@WITH_ANSWERS
def test_a_random_answer_has_no_more_than_chance(name: str) -> None:
    batch, chance = task_of(name).test(LENGTH), TASKS.entry(name).facts["chance"]
    asked = batch.targets[counting(batch)]
    answers = asked.unique()
    assert 1 / len(answers) == pytest.approx(chance, abs=0.001)
    draws = torch.randint(
        len(answers), batch.targets.shape, generator=torch.Generator().manual_seed(0)
    )
    # Four standard errors of that many draws.
    error = 4 * (chance * (1 - chance) / len(asked)) ** 0.5
    assert score(answers[draws], batch) == pytest.approx(chance, abs=error)


@EVERY
def test_the_floor_is_the_best_constant(name: str) -> None:
    task = task_of(name, test_bytes=1 << 12)
    batch = task.test(LENGTH)
    floor = float(by_place(task.floors(LENGTH)["constant"], batch).mean())
    best = max(
        score(torch.full_like(batch.targets, token), batch)
        for token in range(TASKS.entry(name).facts["vocabulary"])
    )
    assert floor == pytest.approx(best, abs=1e-6)
    assert floor < 0.75  # a constant does not solve it


# --- what single tasks promise -------------------------------------------------------


def test_flip_flop_tests_sparse_and_dense_writing() -> None:
    task = task_of("flip_flop")
    tests = {"": task.test(64), **task.variations(64)}
    assert set(tests) == {"", "sparse", "dense"}
    ignored = {
        name: float((batch.tokens[:, :-1:2] == 1).double().mean())
        for name, batch in tests.items()
    }
    # Of 32 instructions the first writes and the last reads.
    for name, share in {"": 0.8, "sparse": 0.98, "dense": 0.1}.items():
        assert ignored[name] == pytest.approx(share * 30 / 32, abs=0.01)
    for batch in tests.values():
        said = torch.tensor(SOLVERS["flip_flop"](batch))
        assert score(said, batch) == pytest.approx(1, abs=1e-9)


def test_a_grid_of_several_shapes_places_its_cells() -> None:
    task = task_of("grid_lookup", length=32)
    shapes = set()
    for step in range(4):
        positions = task.batch(step, 0).positions
        assert positions is not None
        rows, columns = (positions.max(dim=0).values + 1).tolist()
        assert rows * columns == 32
        assert len(positions.unique(dim=0)) == 32
        shapes.add((rows, columns))
    assert shapes == {(8, 4), (4, 8)}
    batch = task.test(64)
    assert batch.positions is not None
    assert batch.positions_for(2).equal(batch.positions)
    assert batch.positions_for(1).equal(torch.arange(64))


# --- what is drawn ------------------------------------------------------------------


def values(numbers: Tensor) -> set[int]:
    return set(numbers.unique().tolist())


@WITH_ANSWERS
def test_tests_are_as_many_as_asked_and_no_stream_is_used_twice(name: str) -> None:
    task = task_of(name)
    tests = [task.test(length) for length in (LENGTH, 4 * LENGTH)]
    assert [len(test.tokens) for test in tests] == [1024, 256]
    short, long = (test.tokens.flatten()[:LENGTH] for test in tests)
    batches = [task.batch(step, seed).tokens for step, seed in ((0, 1), (1, 0))]
    assert not batches[0].equal(batches[1])
    if name in ("counting", "parity", "state_tracking"):
        assert not short.equal(long)
    vocabulary = TASKS.entry(name).facts["vocabulary"]
    found = values(tests[0].tokens) | values(tests[0].targets)
    assert found | {0, 1} == {*range(vocabulary)} | {0, 1}


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("addition", range(10)),
        ("counting", range(8, 12)),
        ("state_tracking", range(6)),
    ],
)
def test_a_sequence_may_begin_with_every_token_that_is_drawn(
    name: str, drawn: range
) -> None:
    assert values(task_of(name).test(LENGTH).tokens[:, 0]) == {*drawn}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *((name, range(1, 9)) for name in ("copy", "reverse", "sort")),
        ("addition", range(2, 6)),
        ("recall", range(1, 5)),
    ],
)
def test_training_has_every_size_and_a_test_the_largest(
    name: str, sizes: range
) -> None:
    task = task_of(name, batch=512)
    assert values(counting(task.batch(0, 0)).sum(dim=1)) == {*sizes}
    assert values(counting(task.test(LENGTH)).sum(dim=1)) == {sizes[-1]}


def of_key(tokens: Tensor) -> Tensor:
    return tokens == 10


def of_recalled(tokens: Tensor) -> Tensor:
    return (tokens >= 16) & (tokens < 32)


@pytest.mark.parametrize(
    ("name", "found", "places"),
    [
        ("passkey", of_key, {*range(56)}),
        ("recall", of_recalled, {*range(31), *range(32, 63)}),
    ],
)
def test_what_is_asked_for_may_stand_at_every_place(
    name: str, found: Callable[[Tensor], Tensor], places: set[int]
) -> None:
    batch = task_of(name, test_bytes=1 << 17).test(4 * LENGTH)
    assert values(found(batch.tokens).nonzero()[:, 1]) == places


def test_recall_asks_in_another_order() -> None:
    for row in task_of("recall").test(4 * LENGTH).tokens[:8]:
        keys = row[(row >= 16) & (row < 32)].tolist()
        half = len(keys) // 2
        assert sorted(keys[:half]) == sorted(keys[half:])
        if keys[:half] != keys[half:]:
            return
    pytest.fail("pairs and queries have one order")


def test_flip_flop_writes_as_often_as_it_reads_and_varies_each_split() -> None:
    tests = {}
    for split in ("test", "validation"):
        task = task_of("flip_flop", split=split)
        plain = task.test(64)
        tests[split] = task.variations(64)
        assert task.test(64).tokens.equal(plain.tokens)  # varied tests leave no trace
        orders = tests[split]["dense"].tokens[:, 2:-2:2]
        share = float((orders == 0).sum() / (orders == 2).sum())
        assert share == pytest.approx(1, abs=0.1)
    for name in ("sparse", "dense"):
        one, other = (tests[split][name].tokens for split in tests)
        assert not one.equal(other)


# --- solvers, written from the sentences that describe the tasks --------------------


def solve(answer):
    """Return a solver of batches from one of sequences, `tokens -> {place: token}`."""

    def solved(batch: Batch) -> np.ndarray:
        said = np.full(batch.tokens.shape, -1)
        for row, tokens in enumerate(batch.tokens.tolist()):
            for place, token in answer(tokens).items():
                if 0 <= place < len(tokens):
                    said[row, place] = token
        return said

    return solved


def after_mark(make):
    """Solve a task that says, behind the mark 1, what `make` makes of what precedes."""

    def answer(tokens: list[int]) -> dict[int, int]:
        mark = tokens.index(1)
        return {mark + i: token for i, token in enumerate(make(tokens[:mark]))}

    return solve(answer)


def running(state, move):
    """Solve a task whose answer at each place is a state that each token moves."""

    def answer(tokens: list[int]) -> dict[int, int]:
        now, said = state, {}
        for place, token in enumerate(tokens):
            now = said[place] = move(now, token)
        return said

    return solve(answer)


def counts_so_far(tokens: list[int]) -> dict[int, int]:
    return {
        place: tokens[: place + 1].count(token) % 8
        for place, token in enumerate(tokens)
    }


def total(tokens: list[int]) -> dict[int, int]:
    plus, equals = tokens.index(10), tokens.index(11)
    first, second = tokens[:plus], tokens[plus + 1 : equals]
    numbers = [int("".join(map(str, digits))) for digits in (first, second)]
    digits = f"{sum(numbers):0{len(first) + 1}d}"
    return {equals + i: int(digit) for i, digit in enumerate(digits)}


def last_written(tokens: list[int]) -> dict[int, int]:
    said, bit = {}, -1
    for place in range(0, len(tokens) - 1, 2):
        if tokens[place] == 0:  # write
            bit = tokens[place + 1]
        if tokens[place] == 2:  # read
            said[place] = bit
    if tokens[-1] == 2:
        said[len(tokens) - 1] = bit
    return said


def looked_up(tokens: list[int]) -> dict[int, int]:
    half = (len(tokens) + 1) // 2
    keys = range(16, 32)
    known = {t: tokens[i + 1] for i, t in enumerate(tokens[: half - 1]) if t in keys}
    return {i: known[t] for i, t in enumerate(tokens) if i >= half and t in known}


def keyed(tokens: list[int]) -> dict[int, int]:
    here, ask = tokens.index(10), tokens.index(11)
    return {ask + i: tokens[here + 1 + i] for i in range(4)}


def later(tokens: list[int]) -> dict[int, int]:
    return {place - 3: token for place, token in enumerate(tokens) if place >= 3}


def composed(state: tuple[int, ...], token: int) -> tuple[int, ...]:
    move = PERMUTATIONS[token]
    return tuple(move[state[i]] for i in range(3))


def tracked(batch: Batch) -> np.ndarray:
    said = np.empty(batch.tokens.shape, dtype=np.int64)
    for row, tokens in enumerate(batch.tokens.tolist()):
        state: tuple[int, ...] = (0, 1, 2)
        for place, token in enumerate(tokens):
            state = composed(state, token)
            said[row, place] = PERMUTATIONS.index(state)
    return said


def diagonal(batch: Batch) -> np.ndarray:
    assert batch.positions is not None
    cells = [tuple(cell) for cell in batch.positions.tolist()]
    place = {cell: i for i, cell in enumerate(cells)}
    said = np.full(batch.tokens.shape, -1)
    tokens = batch.tokens.numpy()
    for i, (row, column) in enumerate(cells):
        if (above := place.get((row - 1, column - 1))) is not None:
            said[:, i] = tokens[:, above]
    return said


PERMUTATIONS = [*itertools.permutations(range(3))]  # in the order of their tokens
SOLVERS = {
    "addition": solve(total),
    "copy": after_mark(lambda symbols: symbols),
    "counting": solve(counts_so_far),
    "flip_flop": solve(last_written),
    "grid_lookup": diagonal,
    "lookahead": solve(later),
    "parity": running(0, lambda odd, bit: odd ^ bit),
    "passkey": solve(keyed),
    "recall": solve(looked_up),
    "reverse": after_mark(lambda symbols: symbols[::-1]),
    "sort": after_mark(sorted),
    "state_tracking": tracked,
}
