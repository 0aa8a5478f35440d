"""MrRoPE against products of radices, one pair at a time."""

import cmath
import math
from itertools import count, pairwise
from typing import Any

import pytest
import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import (
    normal,
)

from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.shared.rotation import rotation_angles


class TestMrRope(RotaryTests):
    name = "mr_rope"
    sizes = {"model_dim": 32, "heads": 2, "length": 64}
    half = Case({"factor": 4.0}, length=8192)
    cases = [
        Case({"layout": layout, "kind": kind, "factor": 4.0}, length=length)
        for length, layout in ((64, "adjacent"), (64, "half"), (2048, "half"))
        for kind in ("uni", "pro")
    ]
    identities = [({"kind": kind}, {}, "rope") for kind in ("uni", "pro")]
    changes = [
        ({"factor": 4.0}, change)
        for change in (
            {"base": 9e3},
            {"layout": "half"},
            {"kind": "uni"},
            {"factor": 4.5},
        )
    ]
    errors = [
        ({"factor": 0.5}, r"factor must be at least 1, got 0\.5"),
        ({"factor": 0.0}, r"factor must be at least 1, got 0\.0"),
        ({"base": 1.0}, r"base must be greater than 1, got 1\.0"),
        ({"base": -2.0}, r"base must be greater than 1, got -2\.0"),
        ({"kind": "new"}, "kind must be uni or pro, got 'new'"),
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        heat = (1 + 0.1 * math.log(4)) ** 2  # of a query and a key
        found = slow_speeds(16, 1e4, t.scheme.geometry.length, 4.0, t.option("kind"))
        return [heat * cmath.exp(1j * (query - key) * speed) for speed in found]


# Base, training length, channels of a head, and the ends of the passage.
CASES: list[tuple[float, int, int, int, int]] = [
    (5e5, 8192, 128, 18, 35),  # Llama 3
    (1e6, 32_768, 128, 23, 40),  # Qwen 2.5
    (1e4, 64, 16, 0, 3),  # no pair with 32 turns
    (1e4, 2048, 16, 2, 6),
    (20.0, 4096, 16, 8, 18),  # no pair without; the passage lies beyond all pairs
    (50.0, 1024, 16, 3, 11),  # ends beyond the last pair
    (10.0, 700, 16, 4, 15),  # would end at place 17, beyond the code's bound
]
every_case = pytest.mark.parametrize(
    ("base", "trained", "head_dim", "first", "last"), CASES
)
both_kinds = pytest.mark.parametrize("kind", ["uni", "pro"])


def make(
    head_dim: int = 16, trained: int = 64, name: str = "mr_rope", **options: Any
) -> Scheme:
    return create(
        name, options=options, model_dim=2 * head_dim, heads=2, length=trained
    )


def speeds(scheme: Scheme) -> list[float]:
    angles = rotation_angles(scheme, torch.tensor([1]))
    assert angles is not None
    return angles[0].tolist()


def slow_speeds(width: int, base: float, trained: int, s: float, kind: str) -> Any:
    """Divide each frequency by the product of the radices of all faster pairs."""

    def turns(pair: int) -> float:
        return trained * base ** (-2 * pair / width) / (2 * math.pi)

    low = max((m for m in range(width) if turns(m) >= 32), default=0)
    high = min(next(m for m in count() if turns(m) <= 1), width - 1)
    n, found, product = high - low, [], 1.0
    for m in range(width // 2):
        found.append(base ** (-2 * m / width) / product)
        if low <= m < high:
            share = 1 / n if kind == "uni" else 2 * (1 + m - low) / ((1 + n) * n)
            product *= s**share
    return found


@both_kinds
@pytest.mark.parametrize("factor", [1.7, 16.0])
@every_case
def test_frequencies_equal_the_slow_reference(
    base: float,
    trained: int,
    head_dim: int,
    first: int,
    last: int,
    factor: float,
    kind: str,
) -> None:
    got = speeds(make(head_dim, trained, base=base, factor=factor, kind=kind))
    # At most 17 products and powers, of 2**-53 each, in a number up to 1.
    expected = slow_speeds(head_dim, base, trained, factor, kind)
    assert got == pytest.approx(expected, rel=1e-14, abs=0)


@both_kinds
@every_case
def test_fast_pairs_keep_their_frequency_and_slow_ones_are_divided_by_the_factor(
    base: float, trained: int, head_dim: int, first: int, last: int, kind: str
) -> None:
    sizes: dict[str, Any] = {
        "head_dim": head_dim,
        "trained": trained,
        "base": base,
    }
    plain = speeds(make(name="rope", **sizes))
    got = speeds(make(kind=kind, factor=3.0, **sizes))
    assert got[: first + 1] == plain[: first + 1]
    assert got[last:] == [speed / 3 for speed in plain[last:]]
    between = list(zip(plain, got, strict=True))[first + 1 : last]
    assert all(speed / 3 < slowed < speed for speed, slowed in between)


def test_radices_are_equal_or_grow() -> None:
    plain = speeds(make(128, 8192, "rope", base=5e5))
    exponents = {}
    for kind in ("uni", "pro"):
        got = speeds(make(128, 8192, base=5e5, kind=kind, factor=2.0))
        slowed = [math.log2(a / b) for a, b in zip(plain, got, strict=True)]
        exponents[kind] = [b - a for a, b in pairwise(slowed[18:36])]
    assert exponents["uni"] == pytest.approx([1 / 17] * 17, abs=1e-14)
    steps = [m / (17 * 9) for m in range(1, 18)]  # 1 + 2 + ... + 17 = 17 * 9
    assert exponents["pro"] == pytest.approx(steps, abs=1e-14)


@pytest.mark.parametrize("length", [1, 6])
def test_without_a_whole_turn_the_fastest_pair_alone_stays(length: int) -> None:
    first, *others = speeds(make(trained=length, factor=4.0))
    assert first == 1
    assert others == [speed / 4 for speed in speeds(make(name="rope"))[1:]]


@both_kinds
@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize("trained", [1, 64, 4096])
def test_a_factor_of_one_is_rope(trained: int, layout: str, kind: str) -> None:
    x, positions = normal(1, 2, 4, 16), torch.tensor([1, 50, 4000, 10**6])
    got = make(trained=trained, layout=layout, kind=kind)
    rope = make(name="rope", layout=layout)
    assert torch.equal(got.query(x, positions), rope.query(x, positions))
    assert torch.equal(got.key(x, positions), rope.key(x, positions))
    assert got.scale(16) == rope.scale(16)


@both_kinds
@pytest.mark.parametrize("length", [65, 80, 96, 127, 128, 160])
def test_a_longer_text_is_read_with_its_own_factor(length: int, kind: str) -> None:
    options = {"base": 5e3, "layout": "half", "kind": kind}
    scheme = make(**options)
    found = scheme.schemes_for_length(length)
    assert list(found) == ["mr_rope"]
    named = make(factor=length / 64, **options)
    x, positions = normal(1, 2, 3, 16), torch.tensor([1, 60, length - 1])
    got = found["mr_rope"].query(x, positions)
    assert torch.equal(got, named.query(x, positions))
    # What was trained stays as it was.
    assert torch.equal(scheme.query(x, positions), make(**options).query(x, positions))
    assert not torch.equal(got, scheme.query(x, positions))


def test_nothing_else_reads_within_training_or_once_scaled() -> None:
    assert make().schemes_for_length(64) == make().schemes_for_length(10) == {}
    assert make(factor=2.0).schemes_for_length(128) == {}
