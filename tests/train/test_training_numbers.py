"""Numbers of training and tasks against values by hand and slow loops."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc_compare.registry import TASKS
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import Corpus, load_corpus
from posenc_compare.tasks.language import Language
from posenc_compare.tasks.ngrams import Ngrams
from posenc_compare.tasks.scan import Scan
from posenc_compare.tasks.task import Batch, Task
from posenc_compare.train.decoder import Decoder
from posenc_compare.train.evaluation import by_place, evaluate
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import Trainer, trainer_of

LENGTH, WORDS = 16, 11
DRAWN = [name for name in TASKS.select("accuracy") if name != "scan"]
TOKENS = torch.randint(
    WORDS, (2, 6, LENGTH), generator=torch.Generator().manual_seed(0)
)
QUARTER = (torch.arange(6 * LENGTH).reshape(6, LENGTH) % 4 == 0).float()
GRADED = QUARTER * torch.linspace(0.5, 3, 6)[:, None]


def network() -> Decoder:
    geometry = Geometry(model_dim=16, heads=2, length=LENGTH)
    return Decoder(Variant("sinusoidal"), 1, geometry, seed=3, vocabulary=WORDS)


def given(weights: Tensor | None) -> Batch:
    return Batch(TOKENS[0], TOKENS[1], weights)


def trainer(weights: Tensor | None, *, autocast: bool = False) -> Trainer:
    """Return a trainer of one batch, 25 steps and a strong decay."""

    class One(Task):
        def batch(self, step: int, seed: int) -> Batch:
            return given(weights)

        def test(self, length: int) -> Batch:
            raise NotImplementedError

    dtype = "bfloat16" if autocast else "float32"
    setting = Training(steps=25, learning_rate=0.01, weight_decay=0.3, dtype=dtype)
    return Trainer(network(), One(setting), setting)


def logits(model: Decoder, *, autocast: bool = False) -> Tensor:
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        return model(TOKENS[0], torch.arange(LENGTH)).double()


def bits(model: Decoder, *, autocast: bool = False) -> Tensor:
    """Return the bits of each target, `(sequence, place)`, computed in float64."""
    logs = logits(model, autocast=autocast).log_softmax(dim=-1) / math.log(2)
    return -logs.gather(2, TOKENS[1][..., None])[..., 0]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("weights", [None, QUARTER, GRADED])
def test_a_loss_is_the_mean_over_places_by_their_weights(
    weights: Tensor | None, autocast: bool
) -> None:
    each = bits(network(), autocast=autocast)
    share = torch.ones(6, LENGTH) if weights is None else weights
    slow = float((each * share).sum() / share.sum())
    one = trainer(weights, autocast=autocast)
    assert one.train(Progress())[0] == pytest.approx(slow, rel=1e-5)
    scores = evaluate(network(), given(weights), autocast)
    torch.testing.assert_close(
        scores[share > 0].double(), each[share > 0], rtol=1e-5, atol=1e-6
    )
    assert float(by_place(scores, given(weights)).mean()) == pytest.approx(slow)


def test_accuracy_asks_for_the_most_likely_token_alone() -> None:
    model = network()
    right = logits(model).argmax(dim=-1) == TOKENS[1]
    assert evaluate(model, given(None), False, "accuracy").bool().equal(right)


def test_places_are_averaged_in_float64() -> None:
    scores = torch.tensor([[2.0**24], [1.0], [1.0]])
    batch = Batch(torch.zeros(3, 1).long(), torch.zeros(3, 1).long())
    assert float(by_place(scores, batch)) == (2**24 + 2) / 3


def test_steps_are_those_of_adamw_with_decay_of_matrices_alone() -> None:
    one = trainer(None)
    model = one.model
    slow = {name: p.detach().double() for name, p in model.named_parameters()}
    first = {name: torch.zeros_like(p) for name, p in slow.items()}
    second = {name: torch.zeros_like(p) for name, p in slow.items()}
    for step in range(4):
        one.step(step)
        done = (step - 2) / 23
        fall = 0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2
        rate = 0.01 * ((step + 1) / 2 if step < 2 else fall)
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            gradient = parameter.grad.double()  # as it was clipped
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.95 * second[name] + 0.05 * gradient**2
            mean = first[name] / (1 - 0.9 ** (step + 1))
            size = (second[name] / (1 - 0.95 ** (step + 1))).sqrt()
            decay = 0.3 if parameter.dim() > 1 else 0.0
            slow[name] = slow[name] * (1 - rate * decay) - rate * mean / (size + 1e-8)
            torch.testing.assert_close(
                parameter.double(), slow[name], rtol=1e-4, atol=1e-5
            )


def test_a_training_is_that_of_its_setting() -> None:
    setting = Training(
        task="copy", layers=1, width=16, heads=2, length=8, steps=9, batch=4, seed=5
    )
    setting = replace(setting, weight_decay=0.7, dtype="bfloat16", norm="rms")
    made = trainer_of(Variant("rope"), replace(setting, convolution="canon"))
    assert {group["weight_decay"] for group in made.optimiser.param_groups} == {0.7, 0}
    assert made.autocast
    assert any("convolution" in name for name, _ in made.model.named_parameters())
    plain = trainer_of(Variant("rope"), setting).model.state_dict()
    for seed, same in ((5, True), (0, False)):
        other = trainer_of(Variant("rope"), replace(setting, seed=seed)).model
        assert other.embedding.weight.equal(plain["embedding.weight"]) == same
    read: list[tuple[int, int]] = []
    batch = made.task.batch

    def watched(step: int, seed: int) -> Batch:
        read.append((step, seed))
        return batch(step, seed)

    made.task.batch = watched  # type: ignore[method-assign]
    made.train(Progress())
    assert read == [(step, 5) for step in range(9)]


# --- the corpus ----------------------------------------------------------------------


def folder_of(path: Path, texts: list[bytes]) -> str:
    path.mkdir()
    for number, text in enumerate(texts):
        (path / f"{number:02}").write_bytes(text)
    return str(path)


def test_a_tenth_is_tested_on_and_the_tenth_before_it_is_for_choosing(
    tmp_path: Path,
) -> None:
    texts = [bytes([65 + number]) * 100 for number in range(10)]
    in_order = sorted(texts, key=lambda text: hashlib.sha256(text).digest())
    corpus = load_corpus(folder_of(tmp_path / "many", texts))
    assert corpus.train.tobytes() == b"\0".join(in_order[:8])
    assert (corpus.validation, corpus.test) == ((in_order[8],), (in_order[9],))
    whole = bytes(i * i % 251 for i in range(2000))
    corpus = load_corpus(folder_of(tmp_path / "one", [whole]))
    assert corpus.train.tobytes() == whole[:1600]
    assert (corpus.validation, corpus.test) == ((whole[1600:1800],), (whole[1800:],))


def test_a_hash_depends_on_where_documents_end(tmp_path: Path) -> None:
    one = load_corpus(folder_of(tmp_path / "one", [b"ab", b"c"]))
    other = load_corpus(folder_of(tmp_path / "other", [b"a", b"bc"]))
    assert one.sha256 != other.sha256


def test_facts_count_the_bytes_of_each_set() -> None:
    train = np.zeros(7, np.uint8)
    facts = Corpus("made", "0", {}, train, (b"ab", b"cde"), (b"f",)).facts()
    counted = [facts[f"{part}_bytes"] for part in ("train", "validation", "test")]
    assert counted == [7, 5, 1]


def test_language_reads_its_split_and_its_floor_the_training_bytes(
    tmp_path: Path,
) -> None:
    draw = np.random.default_rng(0)
    texts = [bytes(draw.integers(97, 123, 2000).tolist()) for _ in range(3)]
    one = folder_of(tmp_path / "one", texts[:1])
    apart = folder_of(tmp_path / "apart", texts[1:])
    corpus = load_corpus(one, apart)
    setting = Training(length=8, longest=2, steps=4, batch=3, test_bytes=64, seed=5)
    setting = replace(setting, corpus=one, test_corpus=apart)
    setting = replace(setting, corpus_sha256=corpus.sha256)
    read = [corpus.batch(3, 8, setting.seed, step) for step in range(4)]
    for split in ("validation", "test"):
        task = Language(replace(setting, split=split))
        windows = corpus.windows(split, 16, 64)[0]
        assert task.windows.tolist() == windows.tolist()
        wanted = Ngrams(read).bits(windows)["2-gram"]
        assert task.floors(16)["2-gram"].tolist() == wanted.tolist()
    assert corpus.batch(3, 8, 0, 1).tolist() != corpus.batch(3, 8, 1, 0).tolist()


# --- tasks ---------------------------------------------------------------------------


def task_of(name: str, **more: object) -> Task:
    sizes = {"length": LENGTH, "longest": 4, "batch": 512, "test_bytes": 1 << 14}
    return TASKS.get(name)(Training(task=name, **{**sizes, **more}))


def counting(batch: Batch) -> Tensor:
    assert batch.weights is not None
    return batch.weights > 0


def values(numbers: Tensor) -> set[int]:
    return set(numbers.unique().tolist())


@pytest.mark.parametrize("name", DRAWN)
def test_tests_are_as_many_as_asked_and_no_stream_is_used_twice(name: str) -> None:
    task = task_of(name)
    tests = [task.test(length) for length in (LENGTH, 4 * LENGTH)]
    assert [len(test.tokens) for test in tests] == [1024, 256]
    short, long = (test.tokens.flatten()[:LENGTH] for test in tests)
    batches = [task.batch(step, seed).tokens for step, seed in ((0, 1), (1, 0))]
    assert not batches[0].equal(batches[1])
    if name in ("counting", "parity", "recurrence", "state_tracking"):
        first = 5 if name == "recurrence" else LENGTH  # what is drawn of a sequence
        assert not short[:first].equal(long[:first])
    vocabulary = TASKS.entry(name).facts["vocabulary"]
    found = values(tests[0].tokens) | values(tests[0].targets)
    assert found | {0, 1} == {*range(vocabulary)} | {0, 1}


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("addition", range(10)),
        ("counting", range(8, 12)),
        ("recurrence", range(16)),
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
        *((name, range(2, 6)) for name in ("addition", "addition_reversed")),
        ("selective_copy", range(1, 9)),
        ("recall", range(1, 5)),
    ],
)
def test_training_has_every_size_and_a_test_the_largest(
    name: str, sizes: range
) -> None:
    task = task_of(name)
    assert values(counting(task.batch(0, 0)).sum(dim=1)) == {*sizes}
    assert values(counting(task.test(LENGTH)).sum(dim=1)) == {sizes[-1]}


def of_trigger(tokens: Tensor) -> Tensor:
    return tokens[:, :-1] == 0


def of_key(tokens: Tensor) -> Tensor:
    return tokens == 10


def of_symbols(tokens: Tensor) -> Tensor:
    return (tokens[:, : 4 * LENGTH - 8] > 1).int()


def of_recalled(tokens: Tensor) -> Tensor:
    return (tokens >= 16) & (tokens < 32)


@pytest.mark.parametrize(
    ("name", "found", "places"),
    [
        ("induction", of_trigger, {*range(62)}),
        ("passkey", of_key, {*range(56)}),
        ("selective_copy", of_symbols, {*range(56)}),
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


@pytest.mark.parametrize(("length", "least"), [(10, 1), (20, 11)])
def test_scan_draws_every_line_that_a_length_is_for(
    tmp_path: Path, length: int, least: int
) -> None:
    path = tmp_path / "tasks"
    path.write_text(
        "\n".join(
            f"IN: {verb} {side} OUT: {' '.join(['I_WALK'] * count)}"
            for verb in ("walk", "run", "jump", "look")
            for side in ("left", "right", "twice", "thrice")
            for count in range(1, 24)
        )
    )
    task = task_of("scan", corpus=str(path), length=10, longest=2)
    assert isinstance(task, Scan)
    wanted = {
        tuple(tokens[:-1].tolist())
        for (tokens, _), split in zip(task.lines, task.splits, strict=True)
        if split == "test" and least <= len(tokens) - 1 <= length
    }
    assert {len(line) for line in wanted} >= {max(least, 4), length}
    rows = zip(*(part.tolist() for part in _filled(task.test(length))), strict=True)
    assert {tuple(row[:end]) for row, end in rows} == wanted


def _filled(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the tokens, and how many of each sequence are no padding."""
    return batch.tokens, (
        counting(batch) * torch.arange(1, 1 + len(batch.tokens[0]))
    ).amax(dim=1)
