"""Randomized positions against a slow draw, and the ids themselves."""

import pytest
import torch
from schemes.reference import SchemeTests
from schemes.tools import (
    drawn_codes,
    normal,
    seeded,
)
from torch import Tensor

from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes import Scheme, create


def make(**options: object) -> Scheme:
    return create("randomized", options=options, model_dim=16, heads=2, length=64)


def slow_ids(rows: list[list[int]], longest: int, generator: torch.Generator) -> Tensor:
    """The p-th smallest of as many numbers as the row has positions."""
    out = []
    for row in rows:
        shuffled = torch.randperm(longest, generator=generator).tolist()
        sample = sorted(shuffled[: max(row) + 1])
        out.append([sample[p] for p in row])
    return torch.tensor(out)


@pytest.mark.parametrize("longest", [10, 64, 2048])
def test_ids_equal_the_slow_draw(longest: int) -> None:
    rows = [
        list(range(10)),
        [0, 1, 2, 0, 1, 2, 3, 4, 5, 6],
        [3, 0, 9, 1, 2, 2, 2, 4, 5, 6],
    ]
    got = make(longest=longest).positions(torch.tensor(rows), seeded(3))
    assert torch.equal(got, slow_ids(rows, longest, seeded(3)))


@pytest.mark.parametrize("length", [1, 2, 60, 64])
def test_ids_are_sorted_distinct_and_below_the_longest(length: int) -> None:
    for seed in range(20):
        ids = make(longest=64).positions(
            torch.arange(length).expand(4, -1), seeded(seed)
        )
        assert ids.dtype == torch.int64
        assert (ids.diff(dim=1) > 0).all()
        assert ids.min() >= 0
        assert ids.max() < 64


def test_every_id_is_drawn_as_often_as_any_other() -> None:
    ids = make(longest=8).positions(torch.arange(3).expand(8000, -1), seeded())
    counts = ids.flatten().bincount(minlength=8)
    assert (counts - 3000).abs().max() < 250  # five standard deviations
    smallest = (ids[:, 0] == 0).double().mean().item()
    assert smallest == pytest.approx(3 / 8, abs=0.03)


def test_ids_are_a_function_of_the_generator_alone() -> None:
    before = torch.get_rng_state()
    rows = torch.arange(9).expand(3, -1)
    one, other = make(), make()
    first = one.positions(rows, seeded(5))
    one.positions(rows, seeded(6))
    one.eval()
    assert torch.equal(first, one.positions(rows, seeded(5)))  # also in testing
    assert torch.equal(first, other.positions(rows, seeded(5)))
    assert not torch.equal(first, other.positions(rows, seeded(6)))
    assert torch.equal(before, torch.get_rng_state())


def test_every_sequence_has_its_own_unless_shared() -> None:
    rows = torch.arange(9).expand(3, -1)
    own = make().positions(rows, seeded())
    assert not torch.equal(own[0], own[1])
    shared = make(shared=True).positions(rows, seeded())
    assert torch.equal(shared, own[:1].expand(3, -1))
    assert torch.equal(make().positions(rows[0], seeded()), own[0])


def test_without_a_generator_ids_stay() -> None:
    assert torch.equal(make().positions(torch.arange(5)), torch.arange(5))


def test_a_position_past_the_longest() -> None:
    with pytest.raises(
        UndefinedPositionError,
        match="randomized: positions must be from 0 to 7, got 8",
    ):
        make(longest=8).positions(torch.arange(9), seeded())


def test_the_scheme_inside_refuses_in_its_own_name() -> None:
    outer = make(scheme="learned", longest=2048)
    ids = outer.positions(torch.arange(9), seeded())
    with pytest.raises(UndefinedPositionError, match="learned: positions must be"):
        outer.embed(normal(1, 9, 16), ids)


class TestRandomized(SchemeTests):
    name = "randomized"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    published = {"longest": (2048, 40, (3277, 6554, 26214))}
    changes = [{"longest": 300}, {"shared": True}, {"scheme": "nope"}]
    errors = [
        ({"longest": -1}, "longest must be at least 1, got -1"),
        ({"scheme": "rop"}, "scheme: unknown scheme 'rop'; did you mean rope"),
        ({"scheme": "rope_2d"}, "needs positions of 2 axes"),
    ]

    def output(self, scheme: Scheme) -> Tensor:
        return drawn_codes(scheme)
