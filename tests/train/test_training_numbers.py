"""Numbers of training against values by hand and slow loops."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from posenc_compare.schemes import Geometry, Variant
from posenc_compare.settings.training import Training
from posenc_compare.tasks.task import Batch, Task
from posenc_compare.train.decoder import Decoder
from posenc_compare.train.evaluation import by_place, evaluate
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import Trainer, trainer_of

LENGTH, WORDS = 16, 11
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
