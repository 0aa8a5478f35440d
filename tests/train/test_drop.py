"""Positions that are dropped before a training ends (DroPE)."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.trainings import words

from posenc_compare.measures.cost import cost
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.settings.canonical import canonical
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.decoder import Decoder
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import Trainer, trainer_of

STEPS, KEPT = 12, 9  # of a drop of a quarter
LABELS = ["t5_bias", "learned", "fire"]  # tables, codes, one for each layer


@pytest.fixture
def setting(tmp_path: Path) -> Training:
    made = Training(
        width=32, length=16, steps=STEPS, batch=4, drop=0.25, longest=1,
        test_bytes=64, corpus=str(words(tmp_path)),
    )  # fmt: skip
    return made.resolve(load_corpus)


def trained(label: str, setting: Training, steps: int = STEPS) -> Trainer:
    """Train, or stop after some steps as a run is stopped: with a step's state."""
    trainer = trainer_of(Variant(label), setting)
    stop = Progress(lambda _: None)
    if steps == STEPS:
        trainer.train(stop)
        return trainer
    for step in range(steps):
        trainer._drop(step)
        trainer.step(step)
    return trainer


def network(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Return the weights but those of schemes."""
    return {
        name: value.detach().clone()
        for name, value in trainer.model.named_parameters()
        if not name.startswith("schemes.")
    }


@pytest.mark.parametrize("label", LABELS)
def test_the_first_steps_are_those_of_the_scheme(label: str, setting: Training) -> None:
    whole = trained(label, replace(setting, drop=0.0))
    dropped = trained(label, setting)
    assert torch.equal(dropped.losses[:KEPT], whole.losses[:KEPT])
    assert (dropped.losses[KEPT:] != whole.losses[KEPT:]).all()


@pytest.mark.parametrize("label", LABELS)
def test_the_last_steps_and_tests_are_without_positions(
    label: str, setting: Training
) -> None:
    """A network of NoPE with its weights reads what it reads, if scales agree."""
    trainer = trained(label, setting)
    model = Decoder(Variant("nope"), 2, Geometry(model_dim=32, heads=4), seed=1)
    assert not model.load_state_dict(network(trainer), strict=False).missing_keys
    tokens = torch.randint(256, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        got = trainer.model.eval()(tokens, torch.arange(40))
        expected = model.eval()(tokens, torch.arange(40))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    for scheme in trainer.model.own:
        assert scheme.name == "nope"


@pytest.mark.parametrize("stopped", [4, KEPT, 11, STEPS])
def test_a_training_goes_on_where_it_was_stopped(
    stopped: int, setting: Training
) -> None:
    whole = trained("learned", setting)
    first = trained("learned", setting, stopped)
    again = trainer_of(Variant("learned"), setting)
    again.restore(stopped, {name: t.clone() for name, t in first.state().items()})
    losses = again.train(Progress(lambda _: None))
    assert losses == whole.train(Progress(lambda _: None))
    assert again.model.own[0].name == "nope"
    for name, weight in network(whole).items():
        assert torch.equal(network(again)[name], weight)


def test_products_keep_their_size_where_a_scheme_does_not_divide_them() -> None:
    """T5 multiplies them by 1 and queries by what its scale would be."""
    model = Decoder(Variant("t5_bias"), 2, Geometry(model_dim=32, heads=2), seed=0)
    first = model.layers[0]
    assert first.query_gain == 0.25
    model.drop_schemes()
    assert first.query_gain == 1.0


@pytest.mark.parametrize("label", ["learned", "fire", "fox"])
def test_what_is_dropped_stays_as_it_was(label: str, setting: Training) -> None:
    trainer = trained(label, setting, KEPT)
    own = dict(trainer.model.schemes.named_parameters())
    before = {name: value.detach().clone() for name, value in own.items()}
    assert before
    trainer.train(Progress(lambda _: None))
    for name, value in own.items():
        assert torch.equal(value, before[name])  # neither moved nor decayed


@pytest.mark.parametrize("scheme", ["rope_2d", "rope"])
def test_positions_of_two_axes_are_dropped(scheme: str) -> None:
    sizes = {"task": "grid_lookup", "length": 36, "longest": 1, "steps": 4, "width": 32}
    setting = Training(**sizes, drop=1.0)
    nope = trained("nope", replace(setting, drop=0.0), 4)
    assert torch.equal(trained(scheme, setting, 4).losses, nope.losses)


def test_the_cost_of_a_step_is_that_of_the_scheme(setting: Training) -> None:
    """Also where most steps are without it."""
    asked = (Variant("t5_bias"), replace(setting, drop=0.75), Progress(lambda _: None))
    rows = {row.quantity: row.value for row in cost(*asked).rows}
    kept = cost(asked[0], replace(setting, drop=0.0), asked[2]).rows
    assert rows["step_memory"] == {r.quantity: r.value for r in kept}["step_memory"]
    assert rows["scheme_parameters"]


def test_minus_zero_is_zero(setting: Training) -> None:
    for name in ("drop", "scheme_rate", "weight_decay"):
        spec = replace(setting, **{name: -0.0}).spec()
        assert canonical(spec) == canonical(replace(setting, **{name: 0.0}).spec())
