"""Perturbation and smoothness against direct computation."""

import math
import statistics
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from schemes.tools import sinusoid
from support.schemes import SEQUENCE

from posenc_compare.measures.perturbation import VOCABULARY, perturbation
from posenc_compare.measures.probe import Probe
from posenc_compare.measures.smoothness import smoothness
from posenc_compare.registry import MEASURES
from posenc_compare.schemes import Variant
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.train.progress import Progress
from posenc_compare.variants import labelled

PROBE = Probe(positions=64)


def rows_of(measure, name: str, probe: Probe = PROBE, **options: object) -> dict:
    rows = measure(Variant(name, options), probe, Progress()).rows
    return {(row.quantity, row.case): row.value for row in rows}


@pytest.mark.parametrize(("name", "inside"), [("cape", "sinusoidal"), ("pose", "rope")])
@pytest.mark.parametrize("measure", [perturbation, smoothness])
def test_what_is_drawn_in_training_alone_is_not_measured(
    measure: Any, name: str, inside: str
) -> None:
    assert rows_of(measure, name) == rows_of(measure, inside)


def test_relative_size_of_sinusoids() -> None:
    # |PE| is sqrt(d / 2) at every position.
    rows = rows_of(perturbation, "sinusoidal")
    tokens = PROBE.normal("vocabulary", VOCABULARY, 128)[:64]
    ratio = math.sqrt(64) / tokens.norm(dim=1)
    assert rows["relative_size", "N(0, 1)"] == pytest.approx(float(ratio.mean()))
    assert rows["largest_relative_size", "N(0, 1)"] == pytest.approx(float(ratio.max()))
    small = rows["relative_size", "N(0, 0.02^2)"]
    assert small == pytest.approx(50 * float(ratio.mean()))
    scaled = rows["relative_size", "N(0, 0.02^2) sqrt(d)"]
    assert scaled == pytest.approx(small / math.sqrt(128))


def test_own_token_is_lost_under_a_large_code() -> None:
    rows = rows_of(perturbation, "integer", normalised=False)
    vocabulary = PROBE.normal("vocabulary", VOCABULARY, 128)
    kept = 0
    for p in range(64):
        gaps = [(vocabulary[p] + p - other).norm() for other in vocabulary]
        kept += int(torch.stack(gaps).argmin()) == p
    assert rows["own_token_nearest", "N(0, 1)"] == kept / 64 < 1


def test_the_own_token_is_the_nearest_and_not_the_longest() -> None:
    # Of two channels, a longer vector of the same direction has a larger product.
    found = rows_of(perturbation, "nope", Probe(width=2, heads=1))
    assert found["own_token_nearest", "N(0, 1)"] == 1


def test_changes_of_queries_and_keys_are_each_their_own() -> None:
    probe = Probe(positions=16, tokens=16, width=16, heads=2)
    found = rows_of(perturbation, "rope", probe)
    x = probe.normal("tokens", 1, 16, 16)
    scheme, places = probe.build(Variant("rope")), probe.arange(16)
    for hook in ("query", "key"):
        before = probe.heads_of(x, hook)
        after = getattr(scheme, hook)(before, places)
        sizes = (after - before).norm(dim=-1) / before.norm(dim=-1)
        assert found["relative_size", hook] == pytest.approx(float(sizes.mean()))
    assert found["relative_size", "query"] != found["relative_size", "key"]


def test_left_after_layernorm_is_the_change_it_says() -> None:
    probe = Probe(positions=2, width=4, heads=1)
    x = probe.normal("vocabulary", VOCABULARY, 4)[:2]
    code = torch.tensor([sinusoid(p, 4) for p in (0, 1)], dtype=torch.float64)
    before, after = F.layer_norm(x, (4,)), F.layer_norm(x + code, (4,))
    slow = ((after - before).norm(dim=1) / before.norm(dim=1)).mean()
    rows = rows_of(perturbation, "sinusoidal", probe)
    assert rows["left_after_layernorm", "N(0, 1)"] == pytest.approx(float(slow))


def test_angles_are_in_degrees() -> None:
    # Of a vector of two channels; half of the positions are turned by more than 180.
    probe = Probe(positions=7, width=2, heads=1)
    turned = [math.degrees(math.acos(math.cos(p))) for p in range(7)]
    rows = rows_of(perturbation, "rope", probe)
    for case in ("query", "key"):
        assert rows["angle", case] == pytest.approx(sum(turned) / 7)
        assert rows["relative_size", case] == pytest.approx(
            sum(2 * math.sin(math.radians(angle) / 2) for angle in turned) / 7
        )


def test_another_seed_is_another_probe() -> None:
    for purpose in ("tokens", "vocabulary"):
        drawn = [Probe(seed=seed).normal(purpose, 5) for seed in (0, 0, 1)]
        assert torch.equal(drawn[0], drawn[1])
        assert not torch.equal(drawn[0], drawn[2])
    one, other = PROBE.normal("tokens", 5), PROBE.normal("vocabulary", 5)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_the_angle_of_no_change_is_zero_in_every_dtype(dtype: Any) -> None:
    rows = rows_of(perturbation, "nope", Probe(positions=64, dtype=dtype))
    assert all(value == 0 for (name, _), value in rows.items() if name == "angle")


def test_bias_share_of_alibi_is_the_mean_over_heads_of_a_share_of_variance() -> None:
    probe = Probe(positions=6, tokens=6, width=8, heads=2)
    x = probe.normal("tokens", 1, 6, 8)[0]
    q, k = (x @ probe.normal(part, 8, 8) / 8**0.5 for part in ("query", "key"))
    shares = []
    for head, slope in enumerate(slopes(2)):
        own = slice(4 * head, 4 * head + 4)
        of_bias = of_content = 0.0
        for i in range(6):
            bias = [slope * (j - i) for j in range(i + 1)]
            content = [float(q[i, own] @ k[j, own]) / 2 for j in range(i + 1)]
            of_bias += statistics.pvariance(bias) * (i + 1)
            of_content += statistics.pvariance(content) * (i + 1)
        shares.append(of_bias / (of_bias + of_content))
    found = rows_of(perturbation, "alibi", probe)["bias_share", ""]
    assert found == pytest.approx(sum(shares) / 2)
    assert 0.3 < rows_of(perturbation, "alibi")["bias_share", ""] < 0.4


@pytest.mark.parametrize("name", SEQUENCE)
def test_no_scheme_that_adds_to_logits_has_a_share_of_zero(name: str) -> None:
    """Products are those of `nope`, so rotations and codes are left out."""
    own, plain = PROBE.build(Variant(name)), PROBE.build(Variant("nope"))
    if any(map(own.acts_at, ("positions", "embed", "query", "key", "scale"))):
        pytest.skip("its queries and keys are others")
    x = PROBE.normal("tokens", 1, PROBE.tokens, PROBE.width)
    q, k = PROBE.heads_of(x, "query"), PROBE.heads_of(x, "key")
    found, products = (
        PROBE.session(scheme, PROBE.arange(PROBE.tokens)).logits(0, q, k, x=x)
        for scheme in (own, plain)
    )
    seen = found.isfinite()
    adds = bool((found[seen] - products[seen]).abs().max() > 1e-9)
    share = rows_of(perturbation, name)["bias_share", ""]
    assert (share == 0) == (not adds)


@pytest.mark.parametrize("signed", [False, True])
def test_binary_flips_as_many_bits_as_a_carry_does(signed: bool) -> None:
    rows = rows_of(smoothness, "binary", signed=signed)
    flips = [(p ^ (p + 1)).bit_count() for p in range(63)]
    assert rows["channels_changed", "mean"] == pytest.approx(sum(flips) / 63)
    assert rows["channels_changed", "largest"] == max(flips) == 6
    step = math.sqrt(128 // 6) * (2 if signed else 1)
    assert rows["largest_step", ""] == pytest.approx(step * math.sqrt(6))


def test_the_largest_step_is_seen_beside_the_mean_step() -> None:
    rows = rows_of(smoothness, "binary", Probe(positions=8, width=3, heads=1))
    steps = [math.sqrt((p ^ (p + 1)).bit_count()) for p in range(7)]
    assert rows["mean_step", ""] == pytest.approx(sum(steps) / 7)
    assert rows["largest_step", ""] == pytest.approx(3**0.5)
    assert rows["step_unevenness", ""] == pytest.approx(3**0.5 * 7 / sum(steps))


@pytest.mark.parametrize("name", SEQUENCE)
def test_every_measure_gives_every_scheme_a_number_or_a_reason(name: str) -> None:
    probe = Probe(positions=64, tokens=16, width=32)
    for measure in map(MEASURES.get, MEASURES.select("untrained")):
        rows = measure.compute(Variant(name), probe, Progress()).rows
        assert rows or not measure.quantities, measure.name
        for row in rows:
            assert row.quantity in measure.quantities
            assert row.value is not None or row.note, row


# --- A number that there is not has its reason -------------------------------------

GRID = {"grid": "4x4", "positions": 16}
FEW = {"width": 32, "heads": 4, "tokens": 32}
FAR = "float16 holds no such position"
# A measure, a scheme, sizes of the probe, all reasons, and how many have a number.
REASONS: list[tuple[str, str, dict[str, Any], set[str], int]] = [
    ("attention_cost", "rope_2d", GRID, {"measured in a sequence only"}, 0),
    ("attention_reach", "alibi_2d", GRID, {"measured in a sequence only"}, 0),
    ("attention_reach", "learned", {"tokens": 16}, {"not defined beyond 16"}, 18),
    ("far_keys", "fox", {}, {"reads no position ids"}, 0),
    ("far_keys", "learned", {}, {"not defined beyond 64"}, 0),
    ("far_keys", "mix:window=16", {}, {"hides keys beyond its window of 16"}, 0),
    ("far_keys", "randomized", {}, {"draws its own ids"}, 0),
    ("far_keys", "rope_2d", GRID, {"a grid has no distance this far"}, 0),
    ("order_sensitivity", "alibi:direction=causal", {}, {"needs a causal mask"}, 1),
    ("order_sensitivity", "rope", {"positions": 2}, {"needs at least 3 positions"}, 0),
    (
        *("precision", "learned", FEW),
        *({"no plain rotation", "not defined beyond 64", FAR}, 12),
    ),
    ("precision", "rope", FEW, {"adds no code", FAR}, 90),
    ("precision", "rope_2d", GRID, {"measured in a sequence only"}, 0),
    ("shift_error", "learned", {}, {"not defined beyond 64"}, 0),
    *(
        ("shift_linearity", name, {}, {"adds no code to tokens"}, 0)
        for name in ("nope", "rope", "alibi", "t5_bias")
    ),
    (
        *("shift_linearity", "fox", {}),
        *({"has no code of a position or distance alone"}, 0),
    ),
    ("shift_linearity", "sinusoidal_2d", GRID, {"needs a larger grid"}, 0),
    (
        *("shift_linearity", "sinusoidal_2d", {"grid": "3x5", "positions": 15}),
        *({"needs at least 4 positions along every axis"}, 0),
    ),
]


@pytest.mark.parametrize(("measure", "label", "sizes", "reasons", "known"), REASONS)
def test_a_number_that_there_is_not_has_its_reason(
    measure: str, label: str, sizes: dict[str, Any], reasons: set[str], known: int
) -> None:
    probe = Probe(**{"positions": 64, **sizes})
    rows = MEASURES.get(measure).compute(labelled(label), probe, Progress()).rows
    assert {row.note for row in rows if row.value is None} == reasons
    assert sum(row.value is not None for row in rows) == known


def test_no_table_shows_which_token_is_nearest() -> None:
    measure = MEASURES.get("perturbation")
    assert "own_token_nearest" in measure.quantities.keys() - measure.views.keys()
