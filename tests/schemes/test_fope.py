"""FoPE against sums of cosines and sines, one pair at a time."""

import math
from typing import Any

import pytest
import torch
from schemes.tools import (
    build,
    channels_of_pair,
    check_gradients,
    check_rotation_keeps_close_positions_apart,
    close,
    normal,
    vectors,
)

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes.fope import Fope, identity
from posenc_compare.schemes.hope import Hope
from posenc_compare.schemes.rope import Rope

PLACES = [0, 1, 5, 40, 300, 901]


def make(head_dim: int = 16, trained: int = 512, **options: Any) -> Fope:
    sizes = {"model_dim": 2 * head_dim, "heads": 2, "length": trained}
    return build(Fope, options, **sizes)


def trained(**options: Any) -> Fope:
    scheme = make(**options)
    with torch.no_grad():
        scheme.sines.add_(0.5 * normal(*scheme.sines.shape, seed=5))
        scheme.cosines.add_(0.5 * normal(*scheme.cosines.shape, seed=6))
    return scheme


def slow_turn(
    scheme: Fope, row: list[float], head: int, place: int, rule: dict[str, Any]
) -> list[float]:
    width, base = len(row), rule.get("base", 1e4)
    speeds = [base ** (-2 * m / width) for m in range(width // 2)]
    if rule.get("floor", True):
        speeds = [s for s in speeds if s >= 2 * math.pi / rule["trained"]]
    outputs = min(len(speeds), width // 4) if rule.get("floor", True) else width // 2
    out = []
    for m in range(width // 2):
        if m < outputs:
            c = sum(
                math.cos(place * s) * scheme.cosines[head, n, m].item()
                for n, s in enumerate(speeds)
            )
            t = sum(
                math.sin(place * s) * scheme.sines[head, n, m].item()
                for n, s in enumerate(speeds)
            )
        else:
            c, t = 1.0, 1.0 if rule.get("pad") == "official" else 0.0
        one, other = channels_of_pair(m, width, rule.get("layout", "half"))
        a, b = row[one], row[other]
        out += [(one, a * c - b * t), (other, b * c + a * t)]
    return [value for _, value in sorted(out)]


@pytest.mark.parametrize("pad", ["paper", "official"])
@pytest.mark.parametrize("floor", [True, False])
@pytest.mark.parametrize(
    "rule",
    [
        {"trained": 512},
        {"trained": 100_000},  # more frequencies than outputs
        {"trained": 20, "layout": "adjacent", "base": 100.0},
    ],
    ids=str,
)
def test_equals_the_slow_reference(rule: dict[str, Any], floor: bool, pad: str) -> None:
    rule = {**rule, "floor": floor, "pad": pad}
    scheme = trained(**rule)
    q, k, _ = vectors(1, 2, 6, 16)
    turned = [
        [
            [
                slow_turn(scheme, x[0, h, i].tolist(), h, PLACES[i], rule)
                for i in range(6)
            ]
            for h in range(2)
        ]
        for x in (q, k)
    ]
    expected = torch.tensor(turned, dtype=torch.float64)
    with torch.no_grad():
        got = attention_logits(
            q, k, scheme=scheme, positions=torch.tensor(PLACES), mask=Mask(causal=False)
        )
    wanted = expected[0] @ expected[1].mT / math.sqrt(16)
    close(got[0], wanted, 1e-11)


@pytest.mark.parametrize("layout", ["adjacent", "half"])
def test_identities_without_a_floor_are_rope(layout: str) -> None:
    x, positions = normal(1, 2, 6, 16), torch.tensor(PLACES)
    scheme = make(layout=layout, gain=0.0, floor=False)
    assert torch.equal(scheme.sines, torch.eye(8).double().expand(2, 8, 8))
    rope = build(Rope, {"layout": layout}, model_dim=32, heads=2)
    close(scheme.query(x, positions), rope.query(x, positions), 1e-14)


def test_identities_with_a_floor_are_hope() -> None:
    x, positions = normal(1, 2, 6, 16), torch.tensor(PLACES)
    options = {"layout": "half"}  # keeps 4 pairs of 8
    hope = build(Hope, options, model_dim=32, heads=2, length=512)
    close(make(gain=0.0).key(x, positions), hope.key(x, positions), 1e-14)


def test_shapes_at_the_published_setting() -> None:
    # head_dim 64, length 512: 16 of 32 frequencies make a full turn, 16 are read.
    assert make(64).cosines.shape == (2, 16, 16)
    # At length 2**20 all do; a quarter of the channels is still the most.
    assert make(64, trained=2**20).sines.shape == (2, 32, 16)
    assert make(64, trained=2**20, floor=False).sines.shape == (2, 32, 32)


def test_a_step_of_the_identity_is_rounded_up() -> None:
    assert identity(3, 3).tolist() == torch.eye(3).tolist()
    read = identity(5, 3).T.tolist()  # every second input, the third beyond none
    assert read == [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    assert identity(4, 3).T.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def test_noise_is_as_large_as_the_released_code_draws_it() -> None:
    scheme = make(256, trained=2**30, gain=0.6)
    heads, inputs, outputs = scheme.sines.shape
    noise = torch.stack([scheme.sines, scheme.cosines]) - identity(inputs, outputs)
    # xavier_normal_ takes a table of three axes for a convolution.
    std = 0.6 * math.sqrt(2 / (outputs * (inputs + heads)))
    assert noise.std().item() == pytest.approx(std, rel=0.02)
    assert (noise[0] - noise[1]).abs().max() > std  # drawn apart


def test_official_pad_doubles_what_is_left_over() -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([0, 7, 400])
    rest = [*range(4, 8), *range(12, 16)]
    paper, official = (
        make(pad=pad).query(x, positions)[..., rest] for pad in ("paper", "official")
    )
    assert torch.equal(paper, x[..., rest])
    ratio = official.square().sum(-1) / paper.square().sum(-1)
    torch.testing.assert_close(ratio, torch.full_like(ratio, 2), rtol=1e-14, atol=0)


def test_a_shift_changes_logits() -> None:
    q, k, _ = vectors(1, 2, 5, 16)
    positions = torch.arange(5)

    def change(gain: float) -> float:
        scheme = make(gain=gain)
        here, there = (
            attention_logits(
                q, k, scheme=scheme, positions=ids, mask=Mask(causal=False)
            )
            for ids in (positions, positions + 64)
        )
        return (here - there).abs().max().item()

    assert change(0.3) > 0.01
    assert change(0.0) < 1e-12


def test_tables_are_frozen_unless_learned() -> None:
    assert not any(p.requires_grad for p in make().parameters())
    scheme = trained(learned=True, trained=100)
    check_gradients(scheme, *vectors(1, 2, 3, 16), torch.tensor([0, 3, 50]))


@pytest.mark.parametrize(
    "options",
    [
        {"base": 9_000.0},
        {"layout": "adjacent"},
        {"gain": 0.4},
        {"floor": False},
        {"pad": "official"},
        {"trained": 100},
    ],
)
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    x, positions = normal(1, 2, 3, 16), torch.tensor([5, 50, 400])
    change = make(**options).query(x, positions) - make().query(x, positions)
    assert change.abs().max() > 1e-4


def test_close_positions_stay_apart_in_bfloat16() -> None:
    check_rotation_keeps_close_positions_apart(make().query)


def test_odd_head() -> None:
    with pytest.raises(ConfigError, match="fope: head_dim must be even, got 7"):
        make(7)


@pytest.mark.parametrize(("head_dim", "trained"), [(16, 6), (2, 512)])
def test_no_pair_would_turn(head_dim: int, trained: int) -> None:
    with pytest.raises(
        ConfigError,
        match=f"fope: length must be at least 7 and head_dim 4 to leave one pair "
        f"above the floor, got {trained} and {head_dim}",
    ):
        make(head_dim, trained)


def test_gain_out_of_range() -> None:
    with pytest.raises(ConfigError, match=r"fope: gain must be 0 or more, got -0\.1"):
        make(gain=-0.1)
