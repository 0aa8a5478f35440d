"""SHAPE: the offsets it draws, and what training and testing see."""

import math

import pytest
import torch
from schemes.tools import close, normal, seeded

from posenc_compare.attention import attention
from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.schemes import SCHEMES, Scheme, create


def make(**options: object) -> Scheme:
    return create("shape", options=options, model_dim=16, heads=2, length=64)


def slow_code(position: int, width: int) -> list[float]:
    angles = [position * 10_000 ** (-m / (width // 2)) for m in range(width // 2)]
    return [wave(angle) for angle in angles for wave in (math.sin, math.cos)]


@pytest.mark.parametrize("reach", [1, 5, 500])
def test_training_adds_one_offset_per_sequence(reach: int) -> None:
    rows = torch.arange(7).expand(6, -1)
    ids = make(reach=reach).positions(rows, seeded(2))
    offsets = torch.randint(reach, (6, 1), generator=seeded(2))
    assert torch.equal(ids - rows, offsets.expand(6, 7))
    assert ids.dtype == torch.int64


def test_offsets_are_uniform_below_the_reach() -> None:
    ids = make(reach=5).positions(torch.zeros(10_000, 1, dtype=torch.int64), seeded())
    counts = ids.flatten().bincount()
    assert len(counts) == 5
    assert (counts - 2000).abs().max() < 200  # five standard deviations


@pytest.mark.parametrize(("test_offset", "expected"), [("reach", 30), ("zero", 0)])
def test_testing_has_one_offset(test_offset: str, expected: int) -> None:
    scheme = make(reach=30, test_offset=test_offset).eval()
    for generator in (None, seeded(1), seeded(2)):
        ids = scheme.positions(torch.arange(4).expand(2, -1), generator)
        assert torch.equal(ids, torch.arange(4).expand(2, -1) + expected)


def test_the_generator_alone_decides() -> None:
    scheme, rows, before = make(), torch.arange(4).expand(9, -1), torch.get_rng_state()
    first = scheme.positions(rows, seeded(1))
    assert torch.equal(first, make().positions(rows, seeded(1)))
    assert not torch.equal(first, scheme.positions(rows, seeded(2)))
    assert torch.equal(scheme.positions(rows), rows)
    assert torch.equal(before, torch.get_rng_state())


def test_the_code_is_that_of_the_moved_position() -> None:
    scheme = make(reach=40)
    ids = scheme.positions(torch.arange(5).expand(3, -1), seeded())
    got = scheme.embed(torch.zeros(3, 5, 16, dtype=torch.float64), ids)
    for b in range(3):
        for p in range(5):
            expected = torch.tensor(
                slow_code(int(ids[b, 0]) + p, 16), dtype=torch.float64
            )
            close(got[b, p], expected)


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("scheme", ["rope", "alibi", "t5_bias", "xpos", "nope"])
def test_around_a_relative_scheme_it_changes_nothing(scheme: str, mode: bool) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        outer = make(scheme=scheme).double().train(mode)
        torch.manual_seed(0)
        inner = create(scheme, model_dim=16, heads=2, length=64).double()
    q, rows = normal(3, 2, 7, 8), torch.arange(7).expand(3, -1)
    ids = outer.positions(rows, seeded())
    assert not torch.equal(ids, rows)
    got = attention(q, q, q, scheme=outer, positions=ids)
    expected = attention(q, q, q, scheme=inner, positions=rows)
    close(got, expected, 1e-11)


def test_close_ids_in_bfloat16_stay_apart() -> None:
    scheme, zero = make(), torch.zeros(1, 2, 16, dtype=torch.bfloat16)
    code = scheme.embed(zero, torch.tensor([15962, 15966]))
    assert not torch.equal(code[0, 0], code[0, 1])


def test_the_scheme_inside_refuses_in_its_own_name() -> None:
    scheme = make(scheme="learned").eval()
    ids = scheme.positions(torch.arange(4))
    with pytest.raises(UndefinedPositionError, match=r"learned: .* 0 to 63, got 503"):
        scheme.embed(normal(1, 4, 16), ids)


def test_reach_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="shape: reach must be at least 1, got 0"):
        make(reach=0)
    assert SCHEMES.entry("shape").facts["family"] == "absolute"
