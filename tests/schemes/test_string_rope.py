"""STRING against complex numbers, one pair of channels at a time."""

import cmath
import math
from itertools import product
from typing import Any

import pytest
import torch
from schemes.reference import Inputs, RotaryTests

from posenc_compare.schemes import Geometry, Scheme, create
from posenc_compare.schemes.string_rope import StringRope

PLACES = torch.tensor([0, 1, 2, 5, 9, 10, 11, 40])


def make(length: int = 64, **options: Any) -> Scheme:
    return create("string_rope", options=options, model_dim=16, heads=2, length=length)


def read_at(past: int, shift: int, window: int) -> int:
    """Return the distance at which a key is read."""
    return past if past < shift else past - shift + window


class TestStringRope(RotaryTests):
    name, rotates = "string_rope", "rope"
    causal = True
    published = {
        "shift": (43_253, 131_072, (21, 42, 169)),
        "window": (128, 2048, (4, 8, 32)),
    }
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    places = [PLACES.tolist(), (PLACES + 7).tolist()]
    cases = [
        {"shift": shift, "window": window, **options, "base": 100.0}
        for shift, window in ((1, 1), (4, 1), (5, 3), (9, 2), (3, 3), (50, 1))
        for options in ({"layout": "half"}, {"sharpened": True})
    ]
    identities = [({"shift": 48}, {}, "rope"), ({"shift": 3, "window": 3}, {}, "rope")]
    changes = [
        {"base": 9_000.0},
        {"layout": "half"},
        {"shift": 7},
        ({"shift": 7}, {"window": 2}),
        {"sharpened": True},
    ]
    errors = [
        ({"shift": -1}, "shift must be at least 0, got -1"),
        ({"window": -1}, "window must be from 0 to shift=21, got -1"),
        ({"window": 22}, "window must be from 0 to shift=21, got 22"),
        ({"shift": 3}, "window must be from 0 to shift=3, got 4"),
        ({"layout": "pairs"}, "layout must be adjacent or half"),
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        past = read_at(query - key, t.option("shift"), t.option("window"))
        heat = (1 + 0.1 * math.log(2)) ** 2 if t.option("sharpened") else 1.0
        return [heat * cmath.exp(1j * past * 100.0 ** (-m / 4)) for m in range(4)]


@pytest.mark.parametrize("length", [16, 30, 64])
def test_a_longer_text_has_the_smallest_shift_that_is_trained(length: int) -> None:
    for window, text in product((1, 3, 5), range(length, 2 * length + 2)):
        fit = [
            shift
            for shift in range(window, length + 1)
            if max(read_at(r, shift, window) for r in range(text)) < length
        ]
        trained = StringRope(
            Geometry(length=length, head_dim=8), shift=5, window=window
        )
        found = trained.schemes_for_length(text)
        if 5 in fit or not fit:
            assert found == {}
            continue
        assert found.keys() == {"string_rope"}
        reader = found["string_rope"]
        assert isinstance(reader, StringRope)
        assert (reader.shift, reader.window) == (fit[0], window)
        assert trained.shift == 5
        assert reader.schemes_for_length(text) == {}


def test_a_shift_beyond_the_training_length_is_brought_back() -> None:
    trained = make(64, shift=100, window=4)
    assert trained.schemes_for_length(64) == {}
    (reader,) = trained.schemes_for_length(80).values()
    assert isinstance(reader, StringRope)
    assert reader.shift == 20
