"""Inside a trained network: probes, token sizes, distances and rotary pairs."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy import stats

from posenc_compare.measures.inside import (
    _distances,
    _session,
    _states,
    _use,
    explained,
    inside,
)
from posenc_compare.settings.training import Training
from posenc_compare.tasks.task import Batch
from posenc_compare.train.decoder import ids_of
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import trainer_of
from posenc_compare.variants import parse_variants

SETTING = Training(
    task="copy",
    layers=2,
    width=32,
    heads=2,
    length=16,
    longest=1,
    test_bytes=1024,
    steps=3,
    batch=4,
)


def measured(scheme: str, **more: Any) -> dict[tuple[str, float | None, str], Any]:
    (variant,) = parse_variants(scheme)
    result = inside(variant, SETTING, Progress())
    return {(r.quantity, r.x, r.case): r.value for r in result.rows} | {
        ("arrays", None, ""): result.arrays
    }


def network(
    scheme: str, convolution: Any = "none"
) -> tuple[Any, Batch, list[torch.Tensor]]:
    (variant,) = parse_variants(scheme)
    trainer = trainer_of(variant, replace(SETTING, convolution=convolution))
    batch = trainer.task.test(16)
    batch = Batch(batch.tokens[:8], batch.targets[:8])
    with torch.no_grad():
        return trainer.model, batch, _states(trainer.model, batch)


def test_a_probe_knows_what_is_linear_in_the_place_and_no_more() -> None:
    noise = torch.randn(64, 16, 4, generator=torch.Generator().manual_seed(0))
    assert explained(noise) == pytest.approx(0, abs=0.05)
    # As many channels as tokens to fit: a map that is not tested would find them.
    assert explained(torch.randn(8, 16, 64)) < 0.1
    place = torch.arange(16.0)[None, :, None] * torch.tensor([1.0, -2.0, 0.0, 3.0])
    assert explained(place + 0.1 * noise) > 0.999
    # Half of the variance of a place that is told with as much noise.
    spread = torch.arange(16.0).std(correction=0)
    told = place[..., :1] + spread * torch.randn(
        512, 16, 1, generator=torch.Generator().manual_seed(1)
    )
    assert explained(told) == pytest.approx(0.5, abs=0.03)


def test_a_probe_gives_one_number_wherever_its_tensors_lie() -> None:
    # Channels that are nearly the same, as those of a trained network are.
    generator = torch.Generator().manual_seed(2)
    shared = torch.randn(64, 128, 4, generator=generator)
    mixture = torch.randn(4, 128, generator=generator)
    state = shared @ mixture + 1e-4 * torch.randn(64, 128, 128, generator=generator)
    kept, found = [], set()
    for size in range(30):
        kept.append(torch.empty(97 * size + 1))  # so that the next lie elsewhere
        found.add(explained(state))
    assert len(found) == 1
    # Nothing is added where a layer adds nothing.
    assert explained(torch.zeros(8, 16, 4)) == pytest.approx(0, abs=0.05)


def test_the_states_are_those_of_the_network() -> None:
    model, batch, states = network("alibi")
    with torch.no_grad():
        logits = model(batch.tokens, torch.arange(16))
        last = model.final_norm(states[-1]) @ model.embedding.weight.T
    torch.testing.assert_close(last, logits)


def test_a_probe_of_what_a_layer_added_reads_no_more() -> None:
    (variant,) = parse_variants("sinusoidal")
    trainer = trainer_of(variant, SETTING)
    trainer.train(Progress())
    states: list[torch.Tensor] = []

    def keep(_: Any, given: Any, made: Any) -> None:
        states.extend((given[0], made))

    for layer in trainer.model.layers:
        layer.register_forward_hook(keep)
    with torch.no_grad():
        trainer.model.eval()(trainer.task.test(16).tokens[:64], torch.arange(16))
    found = measured("sinusoidal")
    for number, (before, after) in enumerate(
        zip(states[::2], states[1::2], strict=True), 1
    ):
        for case, state in (("", after), ("added", after - before)):
            known = found["position_probe", number, case]
            assert known == pytest.approx(explained(state), rel=1e-4)


@pytest.mark.parametrize("pairs", [1, 2, 3, 8])
def test_pairs_that_are_used_alike_are_half_slow(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = torch.ones(2, pairs, dtype=torch.float64)
    monkeypatch.setattr("posenc_compare.measures.inside._use", lambda *_: use)
    assert measured("rope")["slow_pairs", None, ""] == pytest.approx(0.5)


def test_random_ids_are_those_of_a_test() -> None:
    model, batch, _ = network("randomized")
    session = model.session(batch.tokens, torch.arange(16), ids_of(0, "test"))
    assert _session(model, batch).ids.equal(session.ids)
    assert not session.ids.equal(torch.arange(16).expand(8, -1))


@pytest.mark.parametrize(
    ("scheme", "convolution"),
    [
        *((name, "none") for name in ("alibi", "rope", "nope", "fox", "shaw", "sink")),
        ("t5_bias", "none"),  # whose queries start smaller
        ("rope", "canon"),
        ("nope", "kv_shift"),
    ],
)
def test_attention_distance_is_that_of_slow_attention(
    scheme: str, convolution: str
) -> None:
    model, batch, states = network(scheme, convolution)
    with torch.no_grad():
        rows: dict[Any, Any] = {
            (r.x, r.case): r.value for r in _distances(model, batch, states)
        }
        session = _session(model, batch)
        session.embed(states[0])
        for number, layer in enumerate(model.layers):
            mixed = layer.convolution
            seen = mixed.attended(layer.attention_norm(states[number]))
            made = (part(seen) for part in (layer.query, layer.key, layer.value))
            q, k, _ = (
                part.reshape(8, 16, 2, 16).transpose(1, 2)
                for part in mixed.projected(*made, seen)
            )
            q = q * layer.query_gain
            logits = session.logits(number, q, k, x=seen).double()
            for head in range(2):
                total = 0.0
                for sequence in range(8):
                    for query in range(16):
                        weights = logits[sequence, head, query].softmax(0).tolist()
                        total += sum(w * (query - key) for key, w in enumerate(weights))
                assert rows[number + 1, f"head {head}"] == pytest.approx(
                    total / 128, rel=1e-5
                )
            heads = [rows[number + 1, f"head {head}"] for head in range(2)]
            assert rows[number + 1, ""] == pytest.approx(sum(heads) / 2)


@pytest.mark.parametrize("layout", ["adjacent", "half"])
def test_pairs_stand_from_the_fastest_to_the_slowest(layout: str) -> None:
    model, _, states = network(f"rope:layout={layout}")
    first = {"adjacent": slice(0, 2), "half": slice(0, 16, 8)}[layout]
    with torch.no_grad():
        for layer in model.layers:
            for head in range(2):  # the fastest pair alone gets large queries
                rows = torch.arange(head * 16, head * 16 + 16)[first]
                layer.query.weight[rows] *= 100
        use = _use(model, states)
    assert use is not None
    assert use.shape == (2, 8)
    assert (use[:, 0] > 20 * use[:, 1:].max(dim=1).values).all()


def test_use_of_pairs_is_the_product_of_two_mean_norms() -> None:
    model, _, states = network("rope_learned")
    turns = model.own[1].frequency  # the slowest pair comes first in this layer
    turns.data = turns.data.flip(0)
    with torch.no_grad():
        use = _use(model, states)
        assert use is not None
        for number, layer in enumerate(model.layers):
            q, k, _, _ = layer.projected(states[number])
            for pair in range(8):
                means = []
                for part in (q, k):
                    both = part[..., 2 * pair : 2 * pair + 2].double()
                    norms = [math.hypot(*one) for one in both.flatten(0, 2).tolist()]
                    means.append(math.fsum(norms) / len(norms))
                column = 7 - pair if number else pair
                assert use[number, column] == pytest.approx(means[0] * means[1])


def test_numbers_of_a_scheme_that_has_none_give_a_reason() -> None:
    rotary, bias, coded = (measured(name) for name in ("rope", "alibi", "sinusoidal"))
    assert rotary["token_move", None, ""] is None
    use = torch.tensor(rotary["arrays", None, ""]["pair_use"], dtype=torch.float64)
    shares = use[:, 4:].sum(dim=1) / use.sum(dim=1)
    assert rotary["slow_pairs", None, ""] == pytest.approx(float(shares.mean()))
    assert bias["slow_pairs", None, ""] is None
    before, after, spread = torch.tensor(
        [
            *coded["arrays", None, ""]["token_sizes"],
            coded["arrays", None, ""]["code_spread"],
        ],
        dtype=torch.float64,
    ).numpy()
    expected = stats.spearmanr(after / before, spread)[0]
    assert coded["token_move", None, ""] == pytest.approx(expected)
    assert len(spread) == 32
    model, _, _ = network("sinusoidal")
    start = model.embedding.weight.detach().double().square().mean(dim=0) * 32
    assert before == pytest.approx(start.sqrt().numpy())
    for case, sizes in (("start", before), ("", after)):
        wanted = math.sqrt((sizes**2).mean())
        assert coded["token_size", None, case] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("scheme", ["rope_2d", "rope_dinov3"])
def test_rotations_of_two_axes_have_no_use_of_pairs(scheme: str) -> None:
    setting = replace(SETTING, task="grid_lookup")
    result = inside(*parse_variants(scheme), setting, Progress())
    (pairs,) = (row for row in result.rows if row.quantity == "slow_pairs")
    assert (pairs.value, pairs.note) == (None, "no plain rotation")


def test_maps_are_those_of_the_trained_scheme() -> None:
    arrays = measured("learned")["arrays", None, ""]
    (similarity,) = torch.tensor(arrays["trained_similarity"])
    assert similarity.shape == (16, 16)
    torch.testing.assert_close(similarity.diagonal(), torch.ones(16))
    assert "trained_bias" not in arrays
    bias = torch.tensor(measured("alibi")["arrays", None, ""]["trained_bias"])
    assert bias.shape == (2, 16, 16)
    back = torch.arange(16)[:, None] - torch.arange(16)
    slopes = torch.tensor([2.0**-4, 2.0**-8])[:, None, None]
    expected = (-slopes * back).masked_fill(back < 0, -torch.inf)
    torch.testing.assert_close(bias, expected.double(), check_dtype=False)
    # Its parameters have moved from where they start.
    trained = torch.tensor(measured("t5_bias")["arrays", None, ""]["trained_bias"])
    (variant,) = parse_variants("t5_bias")
    start = trainer_of(variant, SETTING).model.own[0]
    with torch.no_grad():
        offsets = start.offset_bias(torch.tensor([0]))
    assert offsets is not None
    assert (trained[:, 0, 0] - offsets[:, 0]).abs().min() > 1e-4


def test_weights_below_0_have_no_distance() -> None:
    model, batch, states = network("erpe")
    assert all(row.value is not None for row in _distances(model, batch, states))
    for scheme in model.own:
        scheme.table.data.fill_(-0.5)
    rows = _distances(model, batch, states)
    assert [(row.value, row.note) for row in rows] == [(None, "weights below 0")] * 2
