"""Self-Extend against complex numbers, one pair of channels at a time."""

import cmath
from itertools import product
from typing import Any

import torch
from schemes.reference import Inputs, RotaryTests
from schemes.tools import (
    normal,
)

from posenc_compare.attention import attention
from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.self_extend import SelfExtend

PLACES = torch.tensor([0, 1, 2, 5, 9, 10, 11, 40])


def make(length: int = 64, **options: Any) -> Scheme:
    return create("self_extend", options=options, model_dim=16, heads=2, length=length)


def read_at(i: int, j: int, group: int, window: int) -> int:
    """Return the distance at which query i reads key j."""
    if i - j < window:
        return i - j
    return (i // group + window - window // group) - j // group


class TestSelfExtend(RotaryTests):
    name, rotates = "self_extend", "rope"
    causal = True
    published = {"window": (1024, 4096, (16, 32, 128))}
    places = [PLACES.tolist(), (PLACES + 7).tolist()]
    cases = [
        {"group": group, "window": window, "layout": layout, "base": 100.0}
        for group, window in ((1, 3), (2, 1), (3, 4), (4, 4), (5, 9), (60, 7), (3, 50))
        for layout in ("adjacent", "half")
    ]
    identities = [
        ({"window": 48}, {}, "rope"),
        ({"group": 1, "window": 3}, {}, "rope"),
        ({"group": 48, "window": 4}, {}, "rerope:window=4"),
    ]
    changes = [
        ({"window": 4}, {"base": 50.0}),
        ({"window": 4}, {"layout": "half"}),
        {"window": 5},
        ({"window": 4}, {"group": 7}),
    ]
    errors = [
        ({"group": 0}, "group must be at least 1, got 0"),
        ({"window": -1}, "window must be at least 0, got -1"),
        ({"layout": "pairs"}, "layout must be adjacent or half"),
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        past = read_at(query, key, t.option("group"), t.option("window"))
        return [cmath.exp(1j * past * 100.0 ** (-m / 4)) for m in range(4)]


def test_the_window_is_a_quarter_of_the_length_unless_given() -> None:
    q, positions = normal(1, 2, 40, 8), torch.arange(40)
    for length, window in ((64, 16), (100, 25), (2, 1)):
        got = attention(q, q, q, scheme=make(length), positions=positions)
        named = attention(q, q, q, scheme=make(window=window), positions=positions)
        assert torch.equal(got, named)
    assert SelfExtend.defaults_at(4096) == {"window": 1024}


def test_a_longer_text_has_the_smallest_group_that_is_trained() -> None:
    for length, window, text in product((16, 20), (1, 4, 7, 15), (21, 40, 65)):
        pairs = [(i, j) for i in range(text) for j in range(i + 1)]
        fit = (
            group
            for group in range(1, text + 1)
            if max(read_at(i, j, group, window) for i, j in pairs) < length
        )
        trained = make(length, group=1, window=window)
        found = trained.schemes_for_length(text)
        reader = found["self_extend"]
        assert isinstance(reader, SelfExtend)
        assert found.keys() == {"self_extend"}
        assert reader.group == next(fit)
        assert trained.facts.relative
        assert not reader.facts.relative
        assert reader.schemes_for_length(text) == {}  # it suffices


def test_the_example_of_the_readme() -> None:
    trained = make(4096, group=1)
    (reader,) = trained.schemes_for_length(15_800).values()
    assert isinstance(reader, SelfExtend)
    assert reader.group == 5
    assert read_at(15_799, 0, 5, 1024) == 3979


def test_no_group_where_none_is_needed_or_suffices() -> None:
    assert make(64, group=1).schemes_for_length(64) == {}
    assert make(64, group=7, window=64).schemes_for_length(64) == {}  # all are near
    assert make(64, group=8).schemes_for_length(400) == {}  # (64 - 16) * 8 + 16
    assert make(64, group=8).schemes_for_length(401) != {}
    assert make(64, group=1, window=64).schemes_for_length(100) == {}
