"""Dual chunk attention against the three lists of positions of its paper."""

import cmath
from itertools import product
from typing import Any

import pytest
import torch
from schemes.reference import Inputs, RotaryTests
from schemes.tools import (
    vectors,
)

from posenc_compare.attention import attention_logits
from posenc_compare.schemes import Geometry, Scheme, create
from posenc_compare.schemes.dual_chunk import DualChunk

PLACES = torch.tensor([0, 1, 2, 5, 9, 10, 11, 40])
PAPER = {"chunk": 6, "local": 4, "far": 9}  # figure 2, with 10 positions of training


def make(length: int = 64, **options: Any) -> Scheme:
    return create("dual_chunk", options=options, model_dim=16, heads=2, length=length)


def read_at(i: int, j: int, chunk: int, local: int, far: int) -> int:
    """Return the distance at which query i reads key j, by equations 2, 5 and 7."""
    intra = list(range(chunk))
    successive = [chunk + n if n < local else far for n in range(chunk)]
    lists = [intra, successive, [far] * chunk]
    behind = min(i // chunk - j // chunk, 2)
    return lists[behind][i % chunk] - j % chunk


def released(chunk: int, local: int) -> int:
    """Return where queries of inter-chunk attention stand in the released code."""
    last_of_chunk = chunk - 1
    return min(last_of_chunk + chunk, chunk + local)


class TestDualChunk(RotaryTests):
    name, rotates = "dual_chunk", "rope"
    causal = True
    published = {
        "chunk": (2560, 4096, (40, 80, 320)),
        "local": (512, 4096, (8, 16, 64)),
    }
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    places = [PLACES.tolist(), (PLACES + 7).tolist()]
    cases = [
        {"chunk": chunk, "local": local, "far": far, "layout": layout, "base": 100.0}
        for chunk, local, far in (
            *(
                (6, 4, 9),
                (6, 4, 0),
                (4, 1, 0),
                (5, 2, 20),
                (3, 3, 0),
                (3, 7, 0),
                (1, 1, 0),
            ),
        )
        for layout in ("adjacent", "half")
    ]
    identities = [({"chunk": 48, "local": 3}, {}, "rope")]
    changes = [
        *(
            (PAPER, change)
            for change in (
                {"base": 50.0},
                {"layout": "half"},
                {"chunk": 5},
                {"far": 15},
            )
        ),
        ({**PAPER, "far": 20}, {"local": 2}),
    ]
    errors = [
        ({"chunk": -1}, "chunk must be at least 0, got -1"),
        ({"local": -1}, "local must be at least 0, got -1"),
        ({"chunk": 6, "local": 4, "far": 8}, "far must be 0 or at least 9, .*, got 8"),
        ({"chunk": 3, "local": 7, "far": 4}, "far must be 0 or at least 5, .*, got 4"),
        ({"far": -1}, "far must be 0 or at least 47, .*, got -1"),
        ({"layout": "pairs"}, "layout must be adjacent or half"),
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        chunk, local = t.option("chunk"), t.option("local")
        far = t.option("far") or released(chunk, local)
        past = read_at(query, key, chunk, local, far)
        return [cmath.exp(1j * past * 100.0 ** (-m / 4)) for m in range(4)]


def test_the_figure_of_the_paper() -> None:
    rows = [[read_at(i, j, **PAPER) for j in range(i + 1)] for i in (5, 6, 9, 10, 11)]
    assert rows[0] == [5, 4, 3, 2, 1, 0]
    assert rows[1] == [6, 5, 4, 3, 2, 1, 0]
    assert rows[2] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert rows[3] == [9, 8, 7, 6, 5, 4, 4, 3, 2, 1, 0]
    assert rows[4] == [9, 8, 7, 6, 5, 4, 5, 4, 3, 2, 1, 0]


def test_one_chunk_is_rope() -> None:
    q, k, _ = vectors(2, 2, 8, 8)
    rope = create("rope", model_dim=16, heads=2)
    scheme = make(chunk=41, local=3)
    for start in (0, 41, -41):
        places = PLACES + start
        expected = attention_logits(q, k, scheme=rope, positions=places)
        got = attention_logits(q, k, scheme=scheme, positions=places)
        assert torch.equal(got, expected)


def test_a_key_of_a_later_chunk_is_read_as_rope_reads_it() -> None:
    q, k, _ = vectors(1, 2, 3, 8)
    places = torch.tensor([13, 2, 0])
    rope = create("rope", model_dim=16, heads=2)
    expected = attention_logits(q, k, scheme=rope, positions=places)
    got = attention_logits(q, k, scheme=make(**PAPER), positions=places)
    assert torch.equal(got, expected)


@pytest.mark.parametrize("length", [4, 5, 16, 64])
def test_no_pair_is_read_beyond_the_training_length(length: int) -> None:
    scheme = DualChunk(Geometry(length=length, head_dim=8))
    numbers = scheme.chunk, scheme.local, scheme.far
    pairs = product(range(5 * length), repeat=2)
    longest = max(read_at(i, j, *numbers) for i, j in pairs if j <= i)
    assert longest == scheme.far < length
    assert scheme.schemes_for_length(5 * length) == {}


def test_the_numbers_of_the_paper_go_one_too_far_as_released() -> None:
    geometry = Geometry(length=64, head_dim=8)
    assert DualChunk(geometry, chunk=48, local=16).far == 64
    assert DualChunk(geometry, chunk=48, local=16, far=63).far == 63


def test_two_chunks_are_rope_where_all_queries_are_local() -> None:
    q, k, _ = vectors(2, 2, 8, 8)
    places = torch.tensor([0, 1, 3, 5, 6, 8, 10, 11])
    rope = create("rope", model_dim=16, heads=2)
    expected = attention_logits(q, k, scheme=rope, positions=places)
    for local, same in ((6, True), (5, False)):
        scheme = make(chunk=6, local=local, far=20)
        got = attention_logits(q, k, scheme=scheme, positions=places)
        assert torch.equal(got, expected) == same
