"""Networks without a causal mask: encoders of masked text, classifiers of images."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from support.schemes import AXES
from support.trainings import words

from posenc_compare.attention import Mask, Session
from posenc_compare.errors import ConfigError
from posenc_compare.measures.extrapolation import extrapolation
from posenc_compare.records.cells import Cell
from posenc_compare.registry import TASKS
from posenc_compare.run.comparison import plan_comparison
from posenc_compare.run.compute import compute
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.tasks.task import Task, register_task
from posenc_compare.train.decoder import Decoder
from posenc_compare.train.progress import Progress

GEOMETRY = Geometry(model_dim=32, heads=2, length=16)
TOKENS = torch.randint(9, (2, 16), generator=torch.Generator().manual_seed(0))
SMALL: dict[str, Any] = {"layers": 1, "width": 32, "heads": 2, "length": 16}
SMALL |= {"batch": 4, "longest": 4, "steps": 3, "test_bytes": 1024}
ON_GRIDS = [name for name, axes in AXES.items() if axes > 1]
Kind = Literal["decoder", "encoder", "classifier"]


def logits(network: Kind, tokens: torch.Tensor, first: int = 0) -> torch.Tensor:
    model = Decoder(Variant("rope"), 2, GEOMETRY, seed=0, vocabulary=9, network=network)
    with torch.no_grad():
        return model(tokens, torch.arange(tokens.shape[1]), first=first)


def changed(network: Kind) -> list[int]:
    """Return the places whose logits depend on the token in place 8."""
    other = TOKENS.clone()
    other[:, 8] = (other[:, 8] + 1) % 9
    moved = (logits(network, TOKENS) - logits(network, other)).abs().amax(dim=(0, 2))
    return (moved > 1e-6).nonzero().flatten().tolist()


def test_a_decoder_looks_back_and_an_encoder_both_ways() -> None:
    assert changed("decoder") == [*range(8, 16)]
    assert changed("encoder") == [*range(16)]
    assert changed("classifier") == [*range(16)]


def test_a_classifier_averages_what_an_encoder_outputs() -> None:
    each, whole = logits("encoder", TOKENS), logits("classifier", TOKENS)
    expected = each.double().mean(dim=1, keepdim=True).expand(whole.shape)
    torch.testing.assert_close(whole.double(), expected, rtol=0, atol=1e-5)
    assert logits("classifier", TOKENS, first=5).equal(whole[:, 5:])


@pytest.mark.parametrize(("name", "sees"), [("rope_2d", True), ("swin", False)])
def test_a_classifier_may_read_a_class_token(name: str, sees: bool) -> None:
    """It has no position, and yet sees those of keys that are rotated."""
    grid = torch.cartesian_prod(torch.arange(4), torch.arange(4))
    made = [
        Decoder(Variant(name), 1, GEOMETRY, 0, 9, axes=2, network="classifier", pool=p)
        for p in ("class", "mean")
    ]
    own, plain = (model.state_dict() for model in made)
    assert {*own} - {*plain} == {"class_token"}
    assert all(own[name].equal(value) for name, value in plain.items())
    model = made[0]
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.own[0].parameters():
            parameter.normal_(generator=draw)
        got = model(TOKENS, grid)
        tokens = model.embedding(TOKENS) * GEOMETRY.model_dim**0.5
        x = torch.cat([own["class_token"].expand(2, 1, -1), tokens], dim=1)
        ids = torch.cat([grid.new_tensor([[99, 99]]), grid])  # which is not read
        session = Session(
            model.own, ids, placed=torch.arange(17) > 0, mask=Mask(causal=False)
        )
        (layer,) = model.layers
        out = model.final_norm(layer(session.embed(x), session, 0))[:, 0]
        wanted = out @ model.embedding.weight.mT
        moved = model(TOKENS.flip(1), grid)
    torch.testing.assert_close(got, wanted[:, None].expand(got.shape))
    assert torch.allclose(moved, got, atol=1e-5) != sees


@pytest.mark.parametrize(
    ("task", "words", "message"),
    [
        ("copy", {"pool": "class"}, "pool must be mean for copy, .* got class"),
        ("masked", {"pool": "class"}, "pool must be mean for masked"),
        ("copy", {"convolution": "peg"}, "must be causal for copy, .* got peg; canon"),
    ],
)
def test_what_a_network_cannot_have_is_refused(
    task: str, words: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Training(task=task, **words)


@pytest.mark.parametrize("name", ["fox", "string_rope"])
@pytest.mark.parametrize("task", ["masked", "shapes"])
def test_schemes_that_need_the_mask_are_refused_by_name(
    name: str, task: str, text: Path
) -> None:
    setting = Training(task=task, corpus=str(text), **SMALL).resolve(load_corpus)
    record = compute(Cell(Variant(name), "extrapolation", setting, 1), Progress())
    kind = TASKS.entry(task).facts["network"]
    assert record.status == "unsupported"
    assert record.error == (
        f"{name}: needs a causal mask, got the network {kind} without one; rope would "
        f"work"
    )


def test_the_pool_is_in_no_key_unless_it_is_set() -> None:
    """Records that are older than this setting keep their keys."""
    assert "pool" not in Training(task="shapes").spec()
    assert Training(task="shapes", pool="class").spec()["pool"] == "class"


def test_schemes_that_count_tokens_are_refused_beside_a_class_token() -> None:
    setting = Training(task="shapes", pool="class", **SMALL)
    record = compute(Cell(Variant("log_length"), "cost", setting, 1), Progress())
    assert record.status == "unsupported"
    assert "needs a position for every token, since it counts tokens" in record.error


def test_inside_is_refused_where_there_is_no_causal_mask() -> None:
    with pytest.raises(ConfigError, match=r"^inside must be .* masked"):
        plan_comparison("rope", "inside", tasks="copy,masked")
    plan_comparison("rope", "inside", tasks="copy")


def test_an_unknown_network_is_refused() -> None:
    facts: dict[str, Any] = {"vocabulary": 2, "score": "accuracy", "chance": 0.5}
    with pytest.raises(ConfigError, match=r"network must be .* 'cnn'"):
        register_task("wrong", network="cnn", **facts)(Task)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", ["masked", "shapes"])
def test_a_network_without_the_mask_learns_and_is_tested(task: str, text: Path) -> None:
    setting = Training(task=task, corpus=str(text), **SMALL).resolve(load_corpus)
    few, many = (
        extrapolation(Variant("rope"), replace(setting, steps=steps), Progress())
        for steps in (3, 120)
    )
    start, end = (result.rows[0].value for result in (few, many))
    assert start is not None
    assert end is not None
    assert end < start - 0.3
    score = TASKS.entry(task).facts["score"]
    lengths = [row.x for row in many.rows if row.quantity == score]
    assert lengths == setting.test_lengths


@pytest.mark.parametrize("name", ON_GRIDS)
def test_every_scheme_of_several_axes_trains_on_images(name: str) -> None:
    setting = Training(task="shapes", **{**SMALL, "longest": 1, "steps": 2})
    result = extrapolation(Variant(name), setting, Progress())
    assert [row.x for row in result.rows if row.quantity == "accuracy"] == [4, 16]
    before, after = result.arrays["training_bits"]
    assert before != after


def test_an_image_is_one_frame_to_a_scheme_of_three_axes() -> None:
    batch = TASKS.get("shapes")(Training(task="shapes", **SMALL)).batch(0, 0)
    assert batch.positions is not None
    assert batch.positions_for(3)[:, 0].eq(0).all()
    assert batch.positions_for(3)[:, 1:].equal(batch.positions)
    assert batch.positions_for(2).equal(batch.positions)
    assert batch.positions_for(1).equal(torch.arange(16))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return words(tmp_path)


def test_masked_bytes_are_those_that_count(text: Path) -> None:
    setting = Training(task="masked", corpus=str(text), **{**SMALL, "batch": 64})
    task = TASKS.get("masked")(setting.resolve(load_corpus))
    batches = [task.batch(0, 0), task.test(16), task.test(64)]
    for batch in batches:
        assert batch.weights is not None
        hidden = batch.tokens == 256
        assert hidden.equal(batch.weights > 0)
        assert batch.tokens[~hidden].equal(batch.targets[~hidden])
        assert batch.targets.max() < 256
        # Four standard errors of so many bytes.
        error = 4 * (0.15 * 0.85 / hidden.numel()) ** 0.5
        assert float(hidden.double().mean()) == pytest.approx(0.15, abs=error)
    short, long = (part.tokens.flatten() for part in batches[1:])
    assert short.equal(long)  # every length predicts the same bytes
    hidden, other = (task.batch(step, 0).tokens == 256 for step in (0, 1))
    assert not hidden.equal(other)
    assert not hidden.flatten().equal(short == 256)  # nor are those of a test
    assert task.batch(1, 0).tokens.equal(task.batch(1, 0).tokens)
    assert task.documents == ()
    assert task.sliding(16, 8) is None
