"""SHAPE: the offsets it draws, and what training and testing see."""

import math

import pytest
import torch
from schemes.reference import SchemeTests
from schemes.tools import close, drawn_codes, normal, seeded
from torch import Tensor

from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes import Scheme, create


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


class TestShape(SchemeTests):
    name = "shape"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    changes = [{"reach": 9}, {"scheme": "rope"}]
    unchanged = {"test_offset"}
    errors = [({"reach": 0}, "reach must be at least 1, got 0")]

    def output(self, scheme: Scheme) -> Tensor:
        return drawn_codes(scheme)


def test_the_scheme_inside_refuses_in_its_own_name() -> None:
    scheme = make(scheme="learned").eval()
    ids = scheme.positions(torch.arange(4))
    with pytest.raises(UndefinedPositionError, match=r"learned: .* 0 to 63, got 503"):
        scheme.embed(normal(1, 4, 16), ids)
