"""Training: paired over schemes, the same twice, and able to learn."""

import gc
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.schemes import SEQUENCE
from support.trainings import SIZES, small, words
from torch import Tensor

from posenc_compare.errors import NonFiniteError, PluginError
from posenc_compare.measures.extrapolation import extrapolation
from posenc_compare.measures.inside import inside
from posenc_compare.records.cells import Cell
from posenc_compare.run.compute import compute
from posenc_compare.schemes import Geometry, Scheme, Variant
from posenc_compare.schemes.alibi import Alibi
from posenc_compare.schemes.contract import schemes_for_length
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.setting import Norm
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import Corpus, load_corpus
from posenc_compare.tasks.language import Language, next_bytes
from posenc_compare.tasks.task import Batch, Task
from posenc_compare.train.checkpoints import Checkpoints, Stopped
from posenc_compare.train.decoder import Decoder
from posenc_compare.train.evaluation import evaluate
from posenc_compare.train.optimiser import acts_on, groups
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import Trainer, trainer_of
from posenc_compare.variants import parse_variants

GEOMETRY = Geometry(model_dim=32, heads=2, length=16)
TOKENS = "tokens or logits"  # what tables and biases are added to
SETTING = Training(steps=30, length=16, learning_rate=1e-2)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return load_corpus(str(words(tmp_path)))


def text(corpus: Corpus, batch: int = 8) -> Task:
    """Return the task of a corpus, with so many sequences of 16 bytes in a batch."""

    class Text(Task):
        def batch(self, step: int, seed: int) -> Batch:
            read = torch.from_numpy(corpus.batch(batch, 16, seed, step))
            return next_bytes(read, 16)

        def test(self, length: int) -> Batch:
            raise NotImplementedError

    return Text(Training())


def train(model: Decoder, corpus: Corpus, setting: Training) -> list[float]:
    return Trainer(model, text(corpus), setting).train(Progress())


def ids_seen(model: Decoder) -> list[torch.Tensor]:
    """Return a list that grows by the position ids of every forward pass."""
    seen: list[torch.Tensor] = []
    embed: Callable[..., torch.Tensor] = model.own[0].embed

    def watch(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        seen.append(positions)
        return embed(x, positions)

    model.own[0].__dict__["embed"] = watch
    return seen


def used_in(model: Decoder) -> list[Scheme]:
    """Return the scheme that each layer uses in a forward pass."""
    used: list[Scheme] = []
    hooks = [
        layer.register_forward_pre_hook(
            lambda _, given: used.append(given[1].scheme(given[2]))
        )
        for layer in model.layers
    ]
    model(torch.zeros(1, 4, dtype=torch.long), torch.arange(4))
    for hook in hooks:
        hook.remove()
    return used


def network_of(model: Decoder) -> dict[str, torch.Tensor]:
    return {n: p for n, p in model.state_dict().items() if "scheme" not in n}


@pytest.mark.parametrize("name", SEQUENCE)
def test_every_scheme_starts_from_the_same_network(name: str) -> None:
    base = network_of(Decoder(Variant("nope"), 2, GEOMETRY, seed=4))
    mine = network_of(Decoder(Variant(name), 2, GEOMETRY, seed=4))
    other = network_of(Decoder(Variant(name), 2, GEOMETRY, seed=5))
    assert base.keys() == mine.keys()
    assert all(torch.equal(base[key], mine[key]) for key in base)
    assert not torch.equal(
        mine["layers.0.query.weight"], other["layers.0.query.weight"]
    )


def test_schemes_of_the_network_have_the_policy_of_lengths(
    corpus: Corpus, tmp_path: Path
) -> None:
    for policy in ("scaled", "published"):
        setting = small(tmp_path / "text.txt", lengths=policy)
        (own,) = trainer_of(Variant("t5_bias"), setting).model.own
        assert own.geometry.lengths == policy


def test_parameters_of_a_scheme_have_a_stream_of_their_own_for_each_seed() -> None:
    def table(seed: int) -> torch.Tensor:
        return Decoder(Variant("learned"), 1, GEOMETRY, seed).get_parameter(
            "schemes.0.table"
        )

    assert torch.equal(table(4), table(4))
    assert not torch.equal(table(4), table(5))


def test_every_layer_has_the_scheme_that_is_its_own() -> None:
    model = Decoder(Variant("fire"), 3, GEOMETRY, seed=0)
    assert used_in(model) == model.own
    places = [(own.geometry.layer, own.geometry.layers) for own in model.own]
    assert places == [(0, 3), (1, 3), (2, 3)]
    shared = Decoder(Variant("learned"), 3, GEOMETRY, seed=0)
    assert set(used_in(shared)) == {*shared.own}


def test_weights_start_as_large_as_the_document_says() -> None:
    model = Decoder(Variant("nope"), 2, Geometry(model_dim=128, heads=2), seed=0)
    small = 4**-0.5  # ends of branches, two in each of two layers
    sizes = {"embedding": 1, "query": 1, "key": 1, "value": 1, "out": small}
    for name, parameter in model.named_parameters():
        *_, part, kind = name.split(".")
        if kind == "bias":
            assert not parameter.any()
        elif part.endswith("norm"):
            assert (parameter == 1).all()
        else:
            size = {**sizes, "up": 1, "down": small}[part] * parameter.shape[1] ** -0.5
            assert parameter.std().item() == pytest.approx(size, rel=0.02)


def test_integers_are_nothing_under_layer_norm_and_something_under_rms_norm() -> None:
    """A LayerNorm subtracts what `integer` adds to every channel."""
    tokens = torch.randint(256, (2, 12), generator=torch.Generator().manual_seed(0))

    def logits(name: str, norm: Norm) -> torch.Tensor:
        model = Decoder(Variant(name), 2, GEOMETRY, seed=0, norm=norm)
        return model.eval()(tokens, torch.arange(12)).detach()

    bound = 64 * torch.finfo(torch.float32).eps * logits("nope", "layer").abs().max()
    assert (logits("integer", "layer") - logits("nope", "layer")).abs().max() < bound
    assert (logits("integer", "rms") - logits("nope", "rms")).abs().max() > 0.1


@pytest.mark.parametrize("label", ["rope", "mix"])  # one for all layers; one for each
def test_readers_are_gone_when_they_have_read(label: str) -> None:
    model = Decoder(Variant(label), 3, GEOMETRY, seed=0)
    before = used_in(model)
    readers = schemes_for_length(model.own, 64)
    assert readers
    for schemes in readers.values():
        with suppress(ZeroDivisionError), model.use_schemes(schemes):
            assert used_in(model) == (schemes * 3)[:3] != before
            raise ZeroDivisionError
        assert used_in(model) == before


@pytest.mark.parametrize("name", SEQUENCE)
def test_logits_of_query_and_key_start_at_one_size(name: str) -> None:
    scheme = Variant(name).build(GEOMETRY)
    start = scheme.query_init_gain(16) * scheme.scale(16)
    # Of the products that share the scale of a logit.
    products = {"deberta": 3, "tupe": 2}.get(name, 1)
    assert start == pytest.approx((16 * products) ** -0.5)


def test_training_learns_and_repeats_bit_for_bit(corpus: Corpus) -> None:
    runs = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        model = Decoder(Variant("rope"), 2, GEOMETRY, seed=0)
        runs.append((train(model, corpus, SETTING), network_of(model)))
    (first, weights), (second, again) = runs
    assert first == second
    assert all(torch.equal(weights[key], again[key]) for key in weights)
    assert first[0] == pytest.approx(8.7, abs=0.7)
    assert first[-1] < 3.5


def test_a_step_leaves_no_tensor_behind(corpus: Corpus) -> None:
    # Small ones that stay between large ones that go made workers grow to gigabytes.
    trainer = Trainer(
        Decoder(Variant("rope"), 1, GEOMETRY, seed=0), text(corpus), SETTING
    )
    alive: dict[int, int] = {}  # tensors by step

    def count(units: int) -> None:
        if trainer.done in (5, SETTING.steps):
            found = [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor)]
            alive[trainer.done] = len(found)

    trainer.train(Progress(count))
    assert alive[5] == alive[SETTING.steps]


def test_gradients_are_clipped_to_norm_1(corpus: Corpus) -> None:
    model = Decoder(Variant("nope"), 1, GEOMETRY, seed=0)
    trainer = Trainer(model, text(corpus), replace(SETTING, steps=1))
    tokens = torch.from_numpy(corpus.batch(8, 16, seed=0, step=0))
    logits = model(tokens[:, :-1], torch.arange(16))
    slow = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    whole = torch.cat(
        [g.flatten() for g in torch.autograd.grad(slow, [*model.parameters()])]
    )
    assert whole.norm() > 1
    (bits,) = trainer.train(Progress())
    assert bits == pytest.approx(slow.item() / math.log(2))
    got = torch.cat(
        [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    )
    torch.testing.assert_close(got, whole / whole.norm(), rtol=1e-4, atol=1e-7)


THROUGH_TOKENS = {
    "ca_rope": {"say.weight"},
    "fox": {"gate.weight"},
    "grape_ap": {"path.weight"},
    "inkling": {"mix.weight"},
    "path": {"down.weight", "up.weight", "strength.weight"},
    "path:forget=true": {"gate.weight"},
    "repo": {"gate.weight", "content.weight", "place.weight"},
    "selective_rope": {"down.weight", "up.weight"},
    "sinusoidal_concat": {"project.weight"},
    "wall": {"gates.weight"},
}  # what multiplies token vectors; all else that is trained does not
TRAINED = sorted(
    name
    for name in SEQUENCE
    if any(p.requires_grad for p in Variant(name).build(GEOMETRY).parameters())
)


@pytest.mark.parametrize("label", [*TRAINED, "fope:learned=true", "path:forget=true"])
def test_parameters_of_a_scheme_train_by_what_they_act_on(
    corpus: Corpus, label: str
) -> None:
    (variant,) = parse_variants(label)
    model = Decoder(variant, 1, GEOMETRY, seed=0)
    trainer = Trainer(model, text(corpus), SETTING)
    names = {p: n for n, p in model.named_parameters() if p.requires_grad}
    network = {n for n in names.values() if "scheme" not in n}
    matrices = {n for n in network if model.get_parameter(n).dim() == 2}
    through = THROUGH_TOKENS.get(variant.name, set()) | THROUGH_TOKENS.get(label, set())
    plain = {f"schemes.0.{name}" for name in through}
    raised = {*names.values()} - network - plain
    found = {
        (group["rate"], group["weight_decay"], name)
        for group in trainer.optimiser.param_groups
        for name in (names[p] for p in group["params"])
    }
    assert found == {
        *((1, 0.1, name) for name in matrices),
        *((1, 0, name) for name in network - matrices | plain),
        *((32**0.5, 0, name) for name in raised),
    }


def test_an_inner_scheme_trains_as_it_does_alone() -> None:
    (variant,) = parse_variants("randomized:scheme=path")
    (scheme,) = Decoder(variant, 1, GEOMETRY, seed=0).own
    names = {p: n.removeprefix("inner.") for n, p in scheme.named_parameters()}
    found = {names[p] for p, target in acts_on(scheme).items() if target != TOKENS}
    assert found == THROUGH_TOKENS["path"]


def test_a_rate_that_is_given_takes_the_place_of_the_rule(corpus: Corpus) -> None:
    model = Decoder(Variant("fox"), 1, GEOMETRY, seed=0)
    *network, own = groups(model, 0.1, 3.4)
    assert own["rate"] == 3.4
    assert all(group["rate"] == 1 for group in network)


def test_random_ids_are_drawn_anew_in_every_step(corpus: Corpus) -> None:
    runs = []
    for seed in (0, 0, 1):
        model = Decoder(Variant("randomized"), 1, GEOMETRY, seed=0)
        runs.append(ids_seen(model))
        setting = replace(SETTING, steps=3, seed=seed)
        Trainer(model, text(corpus, 2), setting).train(Progress())
    first, again, other = ([tuple(ids.flatten().tolist()) for ids in r] for r in runs)
    assert first == again
    assert len({*first, *other}) == 6


def test_random_ids_are_drawn_in_tests_too(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{evaluate.__module__}.TEST_TOKENS", 64)  # four pieces
    model = Decoder(Variant("randomized"), 1, GEOMETRY, seed=0)
    windows = torch.from_numpy(corpus.windows("test", 64, 128)[0])
    seen = ids_seen(model)
    bits = [evaluate(model, next_bytes(windows, 16), autocast=False) for _ in range(2)]
    assert torch.equal(*bits)
    one, other, *again = seen
    assert all(torch.equal(*pair) for pair in zip((one, other), again, strict=True))
    assert one.shape == other.shape == (4, 16)
    assert not torch.equal(one, other)
    assert not torch.equal(one, torch.arange(16).expand(4, 16))


@pytest.mark.parametrize("name", ["shape", "cape"])
def test_nothing_is_augmented_in_tests(corpus: Corpus, name: str) -> None:
    model = Decoder(Variant(name), 1, GEOMETRY, seed=0)
    windows = torch.from_numpy(corpus.windows("test", 64, 64)[0])
    seen = ids_seen(model)
    train(model, corpus, replace(SETTING, steps=1))
    evaluate(model, next_bytes(windows, 16), autocast=False)
    trained, tested = seen
    wanted = model.own[0].eval().positions(torch.arange(16))
    assert torch.equal(tested, wanted.expand(4, 16))
    assert not torch.equal(trained[:4], tested)


@pytest.mark.parametrize("score", ["bits_per_byte", "accuracy"])
@pytest.mark.parametrize("name", ["learned", "rope", "fox", "t5_bias"])
def test_places_before_the_first_that_counts_are_read_and_not_scored(
    corpus: Corpus, name: str, score: str
) -> None:
    model = Decoder(Variant(name), 2, GEOMETRY, seed=0)
    read = next_bytes(torch.from_numpy(corpus.windows("test", 64, 320)[0]), 16)
    read.targets[:, :8] = 0  # what an argmax of nothing would foresee
    weights = torch.zeros(read.tokens.shape)
    weights[0, 12:] = 1
    weights[1:, 13:] = 1
    weights[2, 11:] = 0.5
    part = Batch(read.tokens, read.targets, weights)
    whole = evaluate(model, read, False, score)
    reached: list[Any] = []
    norm = model.layers[-1].get_submodule("mlp_norm")
    norm.register_forward_hook(lambda _, given, made: reached.append(made.shape))
    found = evaluate(model, part, False, score)
    assert reached == [(len(read.tokens), 5, 32)]
    assert (found[:, :11] == 0).all()
    torch.testing.assert_close(found[:, 11:], whole[:, 11:], rtol=1e-5, atol=1e-6)
    nothing = Batch(read.tokens, read.targets, torch.zeros(read.tokens.shape))
    assert torch.equal(evaluate(model, nothing, False, score), whole)


@pytest.mark.parametrize("sequences", [1, 16, 17, 20])
@pytest.mark.parametrize("last", [1, 3, 40])
def test_no_product_is_left_with_few_rows(sequences: int, last: int) -> None:
    # Of one row torch rounds the sums otherwise: a loss was off by 2e-7 of it.
    model = Decoder(Variant("nope"), 2, GEOMETRY, seed=0)
    draw = torch.Generator().manual_seed(1)
    whole = next_bytes(torch.randint(256, (sequences, 513), generator=draw), 512)
    weights = torch.zeros(512)
    weights[-last:] = 1
    part = Batch(whole.tokens, whole.targets, weights.expand(sequences, 512))
    bits = evaluate(model, whole, autocast=False)
    rows: list[int] = []
    norm = model.layers[-1].get_submodule("mlp_norm")
    norm.register_forward_hook(lambda _, given, made: rows.append(made[..., 0].numel()))
    found = evaluate(model, part, autocast=False)
    assert sum(rows) < sequences * 512
    assert min(rows) >= 8
    torch.testing.assert_close(found[:, -last:], bits[:, -last:], rtol=1e-6, atol=0)


@pytest.mark.parametrize("slides", [True, False])
def test_a_task_whose_windows_are_compared_counts_every_place(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slides: bool
) -> None:
    honest = Language.test

    def weighed(task: Language, length: int) -> Batch:
        batch = honest(task, length)
        return replace(batch, weights=torch.ones(batch.tokens.shape))

    monkeypatch.setattr(Language, "test", weighed)
    if slides:
        monkeypatch.setattr(Language, "documents", (), raising=False)
    else:
        monkeypatch.setattr(Language, "sliding", Task.sliding)
    setting = small(tmp_path / "text.txt", longest=2)
    with pytest.raises(
        PluginError, match="language: a task of documents, or one whose"
    ):
        extrapolation(Variant("nope"), setting, Progress())


def test_a_reading_that_cannot_be_costs_no_other(
    corpus: Corpus, tmp_path: Path
) -> None:
    setting = small(tmp_path / "text.txt", longest=2)
    rope = Variant("rope", {"base": 1.0})  # at which yarn has no ramp
    rows = extrapolation(rope, setting, Progress()).rows
    read = {row.case: row for row in rows if row.quantity == "read_bits_per_byte"}
    assert read["yarn"].value is None
    assert read["yarn"].note == "rope: yarn needs a base above 1, got 1.0"
    assert all(row.value for case, row in read.items() if case != "yarn")
    assert (
        sum(row.quantity == "bits_per_byte" and row.value is not None for row in rows)
        == 2
    )


# torch hides this warning of its own, but not where warnings are errors; it comes only
# after other tests have compiled.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_compiled_network_trains_to_the_same_losses(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = torch.compile
    modes: list[str] = []

    def eager(model: Decoder, *, mode: str) -> object:
        modes.append(mode)
        return compiled(model, backend="eager")

    monkeypatch.setattr(torch, "compile", eager)
    setting = replace(SETTING, steps=3)
    plain, other = (
        train(Decoder(Variant("rope"), 1, GEOMETRY, 0), corpus, one)
        for one in (setting, replace(setting, compiled=True))
    )
    assert other == plain
    assert modes == ["reduce-overhead"]


@pytest.fixture
def nan_far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the bias of `alibi` be NaN from the length that it is built for, or 40."""

    def bias(self: Alibi, offsets: Tensor) -> Tensor:
        left = (min(40, self.geometry.length) - offsets.abs()).double().log()
        return (0 * left).expand(self.geometry.heads, -1)

    monkeypatch.setattr(Alibi, "offset_bias", bias)


def expect_failed(measure: str, setting: Training | ProbeSetting) -> None:
    record = compute(Cell(Variant("alibi"), measure, setting, 1), Progress())
    assert (record.status, record.rows) == ("failed", ())
    assert record.error.startswith("non-finite: ")


@pytest.mark.usefixtures("nan_far_away")
@pytest.mark.parametrize("length", [4, 8])
@pytest.mark.parametrize("task", ["language", "parity", "copy"])
def test_a_scheme_that_gives_nan_beyond_its_length_has_failed(
    corpus: Corpus, tmp_path: Path, length: int, task: str
) -> None:
    setting = small(tmp_path / "text.txt", longest=2)
    expect_failed("extrapolation", replace(setting, length=length, task=task))


@pytest.mark.usefixtures("nan_far_away")
@pytest.mark.parametrize(
    "measure",
    ["distance_decay", "far_keys", "perturbation", "shift_error", "uniqueness"],
)
def test_no_measure_takes_nan_for_a_number_or_a_hidden_key(measure: str) -> None:
    for positions in (64, 256):
        expect_failed(measure, ProbeSetting(width=16, heads=2, positions=positions))


def test_every_measure_that_trains_resumes(tmp_path: Path) -> None:
    setting = Training(**{**SIZES, "longest": 1, "steps": 6}, task="copy")
    folder = tmp_path / "checkpoints" / "key"
    folder.parent.mkdir()
    steps: list[int] = []
    at_once = Checkpoints(folder, 0.0, lambda: sum(steps) == 4)
    with pytest.raises(Stopped):
        inside(Variant("rope"), setting, Progress(steps.append, at_once))
    whole = inside(Variant("rope"), setting, Progress())
    again = Checkpoints(folder)
    assert inside(Variant("rope"), setting, Progress(checkpoints=again)) == whole
    assert again.resumed_from == 4


def test_tests_with_windows_that_move_by_one_byte_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posenc_compare.train.token_scores.READS", 20)
    setting = small(words(tmp_path, 999), length=127, test_bytes=127 * 8)
    found = []
    for _ in range(2):
        checkpoints = Checkpoints(tmp_path, 0.0)
        extrapolation(Variant("nope"), setting, Progress(checkpoints=checkpoints))
        found.append((checkpoints.resumed_from, checkpoints.refused))
    assert found == [(0, []), (setting.steps, [])]


class Saving(Checkpoints):
    """Checkpoints that are always due, and note the steps of what they would save."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []

    def due(self) -> bool:
        return True

    def save(self, step: int, tensors: dict[str, Tensor]) -> None:
        self.steps.append(step)


def test_losses_may_be_looked_at_seldom(corpus: Corpus) -> None:
    often, seldom = (
        Trainer(Decoder(Variant("rope"), 1, GEOMETRY, seed=0), text(corpus), SETTING)
        for _ in range(2)
    )
    seldom.look = 7
    saving = Saving()
    assert seldom.train(Progress(checkpoints=saving)) == often.train(Progress())
    assert saving.steps == [7, 14, 21, 28, 30]  # of steps that were looked at
    state = seldom.state()
    assert all(state[name].equal(part) for name, part in often.state().items())


def test_a_look_names_the_first_step_that_was_not_finite(corpus: Corpus) -> None:
    model = Decoder(Variant("learned"), 1, GEOMETRY, seed=0)
    seen: list[int] = []

    def spoiled(gradient: Tensor) -> Tensor:
        seen.append(len(seen))
        return gradient * (math.inf if len(seen) == 4 else 1)

    model.get_parameter("schemes.0.table").register_hook(spoiled)
    trainer = Trainer(model, text(corpus), SETTING)
    trainer.look = 7
    saving = Saving()
    with pytest.raises(NonFiniteError, match=r"norm of all gradients .* at step 3"):
        trainer.train(Progress(checkpoints=saving))
    assert (len(seen), saving.steps) == (7, [])
