"""ReRoPE against complex numbers, one pair of channels at a time."""

import cmath
import math
from typing import Any

import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import (
    normal,
)

from posenc_compare.attention import attention, attention_logits
from posenc_compare.schemes import Scheme, create

PLACES = [0, 1, 2, 5, 9, 10, 11, 40]


class TestRerope(RotaryTests):
    name, rotates = "rerope", "rope"
    causal = True
    published = {"window": (1024, 4096, (16, 32, 128))}
    sizes = {"model_dim": 16, "heads": 2, "length": 8}
    places = [PLACES, [place + 7 for place in PLACES]]
    cases = [
        {"window": window, "leak": leak, **options, "base": 100.0}
        for window, leak in (
            (1, 0.0),
            (3, 0.0),
            (3, 0.25),
            (9, 0.5),
            (50, 0.0),
            (2, 1.0),
        )
        for options in ({"layout": "half"}, {"stretched": True})
    ]
    identities = [
        ({"window": 48}, {}, "rope"),
        ({"window": 2, "leak": 1.0}, {}, "rope"),
    ]
    changes = [
        {"base": 50.0},
        {"layout": "half"},
        {"window": 5},
        {"leak": 0.1},
        {"stretched": True},
    ]
    errors = [
        ({"window": -1}, "window must be at least 0, got -1"),
        ({"leak": 1.5}, "leak must be from 0 to 1, got 1.5"),
        ({"leak": -0.1}, "leak must be from 0 to 1, got -0.1"),
        ({"layout": "pairs"}, "layout must be adjacent or half"),
        (Case({"stretched": True}, length=1), "stretched needs a length of at"),
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        """exp(i r w) with the distance r held at the window."""
        past, window, growth = query - key, t.option("window"), 1.0
        held = past if past < window else window + t.option("leak") * (past - window)
        if t.option("stretched"):
            growth = max(1.0, math.log(query + 1) / math.log(8))
        return [growth * cmath.exp(1j * held * 100.0 ** (-m / 4)) for m in range(4)]


def make(length: int = 64, **options: Any) -> Scheme:
    return create("rerope", options=options, model_dim=16, heads=2, length=length)


def test_the_window_is_a_quarter_of_the_length_unless_given() -> None:
    q, positions = normal(1, 2, 40, 8), torch.arange(40)
    for length, window in ((64, 16), (100, 25), (2, 1)):
        got = attention(q, q, q, scheme=make(length), positions=positions)
        named = attention(q, q, q, scheme=make(window=window), positions=positions)
        assert torch.equal(got, named)


def test_stretched_queries_know_where_they_stand() -> None:
    assert make().facts.relative
    assert not make(stretched=True).facts.relative
    q = normal(1, 2, 3, 8)
    got = make(stretched=True).query(q, torch.tensor([-7, -1, 0]))
    assert torch.equal(got, make().query(q, torch.tensor([-7, -1, 0])))


def test_far_keys_are_all_equally_far() -> None:
    q = normal(1, 2, 1, 8).expand(1, 2, 30, 8)
    k = normal(1, 2, 1, 8, seed=1).expand(1, 2, 30, 8)
    rows = attention_logits(q, k, scheme=make(window=4), positions=torch.arange(30))
    last = rows[0, :, -1]
    torch.testing.assert_close(last[:, :26], last[:, :1].expand(-1, 26))
    assert (last[:, 26:].diff(dim=-1).abs() > 1e-4).all()
