"""Numbers of measures against values by hand and slow loops."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.attention import Session
from posenc_compare.measures import attention_cost as attention_costs
from posenc_compare.measures import cost as costs
from posenc_compare.measures.codes import code_of
from posenc_compare.measures.distance_decay import distance_decay
from posenc_compare.measures.inside import explained, inside
from posenc_compare.measures.measure import Result
from posenc_compare.measures.perturbation import perturbation
from posenc_compare.measures.probe import Probe
from posenc_compare.measures.shift_error import shift_error
from posenc_compare.measures.uniqueness import uniqueness
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.settings.training import Training
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import Trainer, trainer_of

COPY = Training(
    task="copy", layers=2, width=32, heads=2, length=16, longest=1, steps=3, batch=4
)


def values(result: Result) -> dict[tuple[str, float | None, str], float | None]:
    return {(row.quantity, row.x, row.case): row.value for row in result.rows}


@pytest.mark.parametrize("name", ["sinusoidal", "alibi"])
def test_a_query_is_as_large_as_its_scheme_starts_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = 1 if name == "alibi" else 2  # a share of one head is no mean
    probe = Probe(positions=16, tokens=16, width=16, heads=heads)

    def measured() -> dict[str, float]:
        found = {}
        for measure in (shift_error, distance_decay, perturbation):
            made = values(measure(Variant(name), probe, Progress()))
            found |= {f"{n} {x} {c}": v for (n, x, c), v in made.items() if v}
        return found

    plain = measured()
    monkeypatch.setattr(Scheme, "query_init_gain", lambda *_: 3.0)
    larger = measured()
    if name == "alibi":
        share = plain["bias_share None "]
        wanted = share / (share + 9 * (1 - share))  # content has 9 times the variance
        assert larger["bias_share None "] == pytest.approx(wanted)
        return
    content = [n for n in plain if n.startswith(("shift_error", "logit_drop"))]
    assert {n.split(" ")[0] for n in content} >= {"shift_error", "logit_drop"}
    for key in content:
        assert larger[key] == pytest.approx(3 * plain[key], rel=1e-9)


def test_the_own_token_is_the_nearest_and_not_the_longest() -> None:
    # Of two channels, a longer vector of the same direction has a larger product.
    found = values(perturbation(Variant("nope"), Probe(width=2, heads=1), Progress()))
    assert found["own_token_nearest", None, "N(0, 1)"] == 1


def test_changes_of_queries_and_keys_are_each_their_own() -> None:
    probe = Probe(positions=16, tokens=16, width=16, heads=2)
    found = values(perturbation(Variant("rope"), probe, Progress()))
    x = probe.normal("tokens", 1, 16, 16)
    scheme, places = probe.build(Variant("rope")), probe.arange(16)
    for hook in ("query", "key"):
        before = probe.heads_of(x, hook)
        after = getattr(scheme, hook)(before, places)
        sizes = (after - before).norm(dim=-1) / before.norm(dim=-1)
        assert found["relative_size", None, hook] == pytest.approx(float(sizes.mean()))
    assert found["relative_size", None, "query"] != found["relative_size", None, "key"]


def test_the_nearest_codes_are_seen_beside_the_distance_of_all() -> None:
    probe = Probe(positions=24, width=16, heads=2)
    found = values(uniqueness(Variant("sinusoidal"), probe, Progress()))
    codes = code_of(probe.build(Variant("sinusoidal")), probe).values
    pairs = itertools.combinations(codes, 2)
    gaps = torch.stack([(one - other).norm() for one, other in pairs])
    wanted = float(gaps.min() / gaps.square().mean().sqrt())
    assert found["nearest_distance_relative", None, ""] == pytest.approx(wanted)


def test_a_probe_of_what_a_layer_added_reads_no_more() -> None:
    trainer = trainer_of(Variant("sinusoidal"), COPY)
    trainer.train(Progress())
    states: list[Tensor] = []

    def keep(_: Any, given: Any, made: Any) -> None:
        states.extend((given[0], made))

    for layer in trainer.model.layers:
        layer.register_forward_hook(keep)
    with torch.no_grad():
        trainer.model.eval()(trainer.task.test(16).tokens[:64], torch.arange(16))
    found = values(inside(Variant("sinusoidal"), COPY, Progress()))
    for number, (before, after) in enumerate(
        zip(states[::2], states[1::2], strict=True), 1
    ):
        for case, state in (("", after), ("added", after - before)):
            known = found["position_probe", number, case]
            assert known == pytest.approx(explained(state), rel=1e-4)


# --- times and memory ----------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds that have passed; nothing passes by itself."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_attention_is_timed_after_a_first_round_and_gradients_beside_gradients(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(attention_costs, "peak_memory", lambda *_: 3 << 20)
    probe = Probe(width=16, heads=2, positions=2, dtype="float32")
    found = values(attention_costs.attention_cost(Variant("nope"), probe, Progress()))
    assert found["forward_ms", 2, ""] == 5000  # the median of 3, 5 and 10 seconds
    assert found["forward_ratio", 2, ""] == 2.5
    assert found["gradient_ms", 2, ""] == 9000
    assert found["gradient_ratio", 2, ""] == 9 / 6
    assert found["decode_ms", 2, ""] == 5000
    assert found["decode_ratio", 2, ""] == 2.5
    assert found["forward_mib", 2, ""] == found["gradient_mib", 2, ""] == 3


def test_a_step_costs_the_median_of_those_timed_and_the_memory_of_one(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = iter([100.0] * costs.WARM + [*map(float, range(1, costs.TIMED)), 1e4])
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
    monkeypatch.setattr(costs, "peak_memory", peak_memory)
    units: list[int] = []
    found = values(costs.cost(Variant("nope"), COPY, Progress(units.append)))
    # The middle of 1 to 11 and one that was disturbed: between the sixth and seventh.
    assert found["step_seconds", None, ""] == 6.5
    assert found["step_memory", None, ""] == 5
    assert len(units) == costs.WARM + costs.TIMED
