"""Measures through attention: what must be zero, and what must not."""

import math
import statistics

import pytest
import torch
import torch.nn.functional as F
from schemes.tools import sinusoid
from support.schemes import SEQUENCE
from torch import Tensor

from posenc_compare.measures.distance_decay import distance_decay, rotation_bound
from posenc_compare.measures.order_sensitivity import order_sensitivity
from posenc_compare.measures.perturbation import perturbation
from posenc_compare.measures.probe import Probe
from posenc_compare.measures.rounding import rounding_note
from posenc_compare.measures.shift_error import shift_error
from posenc_compare.records.quantities import NEAR
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.schemes.shared.rotation import rotation_angles
from posenc_compare.train.progress import Progress

UNCHANGED = {"fire", "self_extend", "dual_chunk"}  # among 128 positions of 512
PROBE = Probe(positions=256)
ROUNDING = 1e-12  # float64, logits of about 10, sums of 32 products


def values(measure, name: str, probe: Probe = PROBE, **options: object) -> dict:
    rows = measure(Variant(name, options), probe, Progress()).rows
    return {(row.quantity, row.case, row.x): row.value for row in rows}


@pytest.mark.parametrize("name", ["rerope", "self_extend", "dual_chunk", "string_rope"])
def test_only_a_plain_rotation_has_the_bound_of_its_angles(name: str) -> None:
    assert ("rotation_bound", "", 8) in values(distance_decay, "rope")
    assert ("rotation_bound", "", 8) not in values(distance_decay, name)


def test_a_window_hides_far_distances() -> None:
    rows = values(distance_decay, "mix", window=16)
    assert rows["logit_drop", "", 8] > 0
    assert rows["logit_drop", "", 16] is rows["logit_drop", "furthest", None] is None


@pytest.mark.parametrize("name", SEQUENCE)
def test_a_note_says_where_a_scheme_would_change(name: str) -> None:
    probe = Probe(positions=512, width=32)
    scheme = probe.build(Variant(name))
    rows = shift_error(Variant(name), probe, Progress()).rows
    still = [row for row in rows if row.case == "plain" and (row.value or 0) < ROUNDING]
    assert {row.note == NEAR for row in still} <= {not scheme.facts.relative}
    assert bool(still) == (scheme.facts.relative or name in UNCHANGED)


@pytest.mark.parametrize("case", ["plain", "after LayerNorm"])
def test_shift_error_is_the_largest_change_of_any_logit(case: str) -> None:
    probe = Probe(positions=5, tokens=5, width=8, heads=2)
    tokens = probe.normal("tokens", 4, 5, 8)
    to_query, to_key = (probe.normal(part, 8, 8) for part in ("query", "key"))

    def logits(shift: int) -> list[float]:
        codes = [sinusoid(p, 8) for p in range(shift, shift + 5)]
        x = tokens + torch.tensor(codes, dtype=tokens.dtype)
        x = F.layer_norm(x, (8,)) if case == "after LayerNorm" else x
        q, k = x @ to_query / 8**0.5, x @ to_key / 8**0.5
        return [
            float(q[b, i, head : head + 4] @ k[b, j, head : head + 4]) / 2
            for b in range(4)
            for head in (0, 4)
            for i in range(5)
            for j in range(i + 1)
        ]

    rows = values(shift_error, "sinusoidal", probe)
    for k in (1, 8, 64):
        pairs = zip(logits(k), logits(0), strict=True)
        slow = max(abs(moved - still) for moved, still in pairs)
        assert rows["shift_error", case, k] == pytest.approx(slow, rel=1e-9)


@pytest.mark.parametrize("case", ["bidirectional", "causal"])
def test_order_sensitivity_is_that_of_two_layers_of_their_own(case: str) -> None:
    probe = Probe(positions=4, tokens=4, width=8, heads=2)
    tokens = probe.normal("tokens", 8, 4, 8)
    order = torch.randperm(3, generator=probe.generator("shuffle")).tolist()
    assert order != [0, 1, 2]

    def project(x: Tensor, part: str) -> Tensor:
        return x @ probe.normal(part, 8, 8) / 8**0.5

    def last(x: Tensor) -> Tensor:
        for layer in (0, 1):
            seen, read = F.layer_norm(x, (8,)), torch.zeros_like(x)
            q, k, v = (project(seen, f"{p} {layer}") for p in ("query", "key", "value"))
            for i in range(4):
                end = i + 1 if case == "causal" else 4
                for own in (slice(0, 4), slice(4, 8)):
                    logits = (q[:, i, None, own] * k[:, :end, own]).sum(-1) / 2
                    weights = logits.softmax(-1)[..., None]
                    read[:, i, own] = (weights * v[:, :end, own]).sum(1)
            x = x + read
        return F.layer_norm(x[:, 3], (8,))

    straight, mixed = last(tokens), last(tokens[:, [*order, 3]])
    slow = math.dist(mixed.flatten(), straight.flatten()) / float(straight.norm())
    got = values(order_sensitivity, "nope", probe)["order_sensitivity", case, None]
    assert got == pytest.approx(slow, rel=1e-9, abs=1e-15)


def test_logit_drop_is_the_mean_over_sequences_and_heads_after_a_layernorm() -> None:
    probe = Probe(positions=5, tokens=5, width=8, heads=2)
    tokens, to_query = probe.normal("tokens", 8, 1, 8), probe.normal("query", 8, 8)
    x = tokens + torch.tensor([sinusoid(p, 8) for p in range(5)], dtype=tokens.dtype)
    x = (x - x.mean(2, keepdim=True)) / (x.var(2, False, keepdim=True) + 1e-5).sqrt()
    q = x @ to_query / 8**0.5

    def mean_at(b: int, distance: int) -> float:
        found = [
            float(q[b, i, head : head + 4] @ q[b, i - distance, head : head + 4]) / 2
            for head in (0, 4)
            for i in range(distance, 5)
        ]
        return statistics.mean(found)

    rows = values(distance_decay, "sinusoidal", probe)
    for case, x_of, distance in (("", 2, 2), ("", 4, 4), ("furthest", None, 4)):
        drops = [mean_at(b, 0) - mean_at(b, distance) for b in range(8)]
        assert rows["logit_drop", case, x_of] == pytest.approx(statistics.mean(drops))
        half = 2.365 * statistics.stdev(drops) / 8**0.5  # printed tables of t, 7 d. f.
        found = rows["logit_drop_interval", case, x_of]
        assert found == pytest.approx(half, rel=2e-4)


def test_the_drop_rests_on_equal_queries_and_keys_unless_a_bias_is_added() -> None:
    for name in ("rope", "sinusoidal"):
        rows = values(distance_decay, name)
        independent = rows["logit_drop_independent", "furthest", None]
        half = rows["logit_drop_interval", "furthest, independent", None]
        assert abs(independent) < 2 * half < rows["logit_drop", "furthest", None]
    rows = values(distance_decay, "alibi")
    drop, independent = (
        rows[name, "furthest", None]
        for name in ("logit_drop", "logit_drop_independent")
    )
    assert drop == pytest.approx(independent) != 0


def test_independent_keys_have_a_projection_of_their_own() -> None:
    probe = Probe(positions=5, tokens=5, width=8, heads=2)
    scheme = probe.build(Variant("sinusoidal"))
    x = probe.session(scheme, probe.arange(5)).embed(
        probe.normal("tokens", 8, 1, 8).expand(-1, 5, -1)
    )
    x = F.layer_norm(x, (8,))
    q, k = (x @ probe.normal(part, 8, 8) / 8**0.5 for part in ("query", "key"))
    products = (q * k, q[:, 4] * k[:, 0])  # over both heads, each of 4 channels
    near, far = products[0].sum(-1).mean() / 4, products[1].sum(-1).mean() / 4
    rows = values(distance_decay, "sinusoidal", probe)
    found = rows["logit_drop_independent", "furthest", None]
    assert found == pytest.approx(float(near - far))


@pytest.mark.parametrize("normalised", [True, False])
def test_what_a_layernorm_removes_makes_a_scheme_nope(normalised: bool) -> None:
    for measure in (order_sensitivity, distance_decay):
        bare = values(measure, "nope")
        found = values(measure, "integer", normalised=normalised)
        assert found.keys() == bare.keys()
        # The smallest token, of size 10, stands beside integers up to 255.
        assert all(abs(found[key] - bare[key]) < 100 * ROUNDING for key in bare)


def test_rotation_bound_equals_the_sums_of_the_paper() -> None:
    angles = rotation_angles(PROBE.build(Variant("rope")), torch.arange(5))
    assert angles is not None
    pairs = angles.shape[1]
    for distance in range(5):
        turns = [
            complex(math.cos(x), math.sin(x))
            for x in (distance * 10_000 ** (-i / pairs) for i in range(pairs))
        ]
        sums = [abs(sum(turns[: i + 1])) for i in range(pairs)]
        at_zero = (pairs + 1) / 2
        slow = sum(sums) / pairs / at_zero
        assert float(rotation_bound(angles)[distance]) == pytest.approx(slow, rel=1e-12)


def test_three_positions_are_enough_to_shuffle() -> None:
    rows = values(order_sensitivity, "alibi", Probe(positions=3))
    assert rows["order_sensitivity", "bidirectional", None] > 0.001


def test_t5_is_probed_at_the_temperature_it_starts_with() -> None:
    # Its queries start smaller by sqrt(head_dim), in place of the scale it lacks.
    nope = values(order_sensitivity, "nope")["order_sensitivity", "causal", None]
    t5 = values(order_sensitivity, "t5_bias")["order_sensitivity", "causal", None]
    assert t5 == pytest.approx(nope, rel=0.2)


@pytest.mark.parametrize("name", ["sinusoidal", "alibi"])
def test_a_query_is_as_large_as_its_scheme_starts_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = 1 if name == "alibi" else 2  # a share of one head is no mean
    probe = Probe(positions=16, tokens=16, width=16, heads=heads)

    def measured() -> dict[str, float]:
        found = {}
        for measure in (shift_error, distance_decay, perturbation):
            made = values(measure, name, probe)
            found |= {f"{n} {x} {c}": v for (n, c, x), v in made.items() if v}
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


ROUGH = Probe(positions=256)


def notes(measure, name: str, probe: Probe = ROUGH) -> dict:
    rows = measure(Variant(name), probe, Progress()).rows
    return {(row.case, row.x): row.note for row in rows if row.value is not None}


def test_zero_is_no_rounding() -> None:
    assert rounding_note(0.0, 1.0, ROUGH) == ""
    assert set(notes(shift_error, "alibi").values()) == {""}


def test_the_limit_grows_with_the_numbers_and_their_sums() -> None:
    last = math.ulp(1.0)
    assert rounding_note(384 * last, 1.0, ROUGH) == "rounding"
    assert rounding_note(-385 * last, 1.0, ROUGH) == ""
    assert rounding_note(-385 * last, 1.01, ROUGH) == "rounding"


def test_a_relative_scheme_moves_by_rounding() -> None:
    assert set(notes(shift_error, "rope").values()) == {"rounding"}
    assert set(notes(shift_error, "sinusoidal").values()) == {""}


@pytest.mark.parametrize("name", ["nope", "integer"])
def test_a_set_has_no_order_but_that_of_the_sums(name: str) -> None:
    said = notes(order_sensitivity, name)
    assert said == {("bidirectional", None): "rounding", ("causal", None): ""}
