"""Scaled RoPE against the formulas of the papers, one pair at a time."""

import cmath
import math
from typing import Any

import pytest
import torch
from schemes.reference import Inputs, RotaryTests
from schemes.tools import normal, speeds
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Geometry, create
from posenc_compare.schemes.rope import Rope
from posenc_compare.schemes.shared.scaling import OPTIONS, RULES

every_rule = pytest.mark.parametrize("rule", RULES)


def make(head_dim: int = 16, trained: int = 64, **options: Any) -> Rope:
    sizes: Any = {"model_dim": 2 * head_dim, "heads": 2, "length": trained}
    scheme = create("rope", options=options, **sizes).double()
    assert isinstance(scheme, Rope)
    return scheme


def slow_ntk(d: int, base: float, s: float) -> list[float]:
    larger = base * s ** (d / (d - 2))
    return [larger ** (-2 * m / d) for m in range(d // 2)]


def slow_by_parts(
    d: int, base: float, s: float, length: int, alpha: float, beta: float
) -> list[float]:
    found = []
    for m in range(d // 2):
        theta = base ** (-2 * m / d)
        turns = length / (2 * math.pi / theta)
        if turns < alpha:
            gamma = 0.0
        elif turns > beta:
            gamma = 1.0
        else:
            gamma = (turns - alpha) / (beta - alpha)
        found.append((1 - gamma) * theta / s + gamma * theta)
    return found


def slow_yarn_index(
    d: int,
    base: float,
    s: float,
    length: int,
    alpha: float,
    beta: float,
    *,
    truncate: bool = True,
) -> list[float]:
    def dim(turns: float) -> float:
        return d * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = dim(beta), dim(alpha)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), float(min(high, d - 1))
    if low == high:
        high += 0.001
    found = []
    for m in range(d // 2):
        theta = base ** (-2 * m / d)
        mask = 1 - min(1.0, max(0.0, (m - low) / (high - low)))
        found.append(theta / s * (1 - mask) + theta * mask)
    return found


def slow_llama3(d: int, base: float, s: float, length: int) -> list[float]:
    found = []
    for m in range(d // 2):
        theta = base ** (-2 * m / d)
        wavelength = 2 * math.pi / theta
        if wavelength < length / 4:
            found.append(theta)
        elif wavelength > length / 1:
            found.append(theta / s)
        else:
            smooth = (length / wavelength - 1) / (4 - 1)
            found.append((1 - smooth) * theta / s + smooth * theta)
    return found


CASES: list[tuple[dict[str, Any], list[float], float]] = [
    ({"scaling": "pi"}, [1e4 ** (-m / 8) / 4 for m in range(8)], 1),
    ({"scaling": "ntk"}, slow_ntk(16, 1e4, 4), 1),
    # factor * length / original - (factor - 1), the length 4 times the original
    ({"scaling": "ntk_dynamic"}, slow_ntk(16, 1e4, 4 * 4 - 3), 1),
    ({"scaling": "ntk_by_parts"}, slow_by_parts(16, 1e4, 4, 64, 1, 32), 1),
    (
        {"scaling": "ntk_by_parts", "alpha": 0.2, "beta": 5.0, "original": 200},
        slow_by_parts(16, 1e4, 4, 200, 0.2, 5),
        1,
    ),
    (
        {"scaling": "yarn"},
        slow_yarn_index(16, 1e4, 4, 64, 1, 32),
        0.1 * math.log(4) + 1,
    ),
    (
        {"scaling": "yarn", "original": 2048, "base": 5e5},
        slow_yarn_index(16, 5e5, 4, 2048, 1, 32),
        0.1 * math.log(4) + 1,
    ),
    (
        {"scaling": "yarn", "truncate": False, "alpha": 2.0, "beta": 8.0},
        slow_yarn_index(16, 1e4, 4, 64, 2, 8, truncate=False),
        0.1 * math.log(4) + 1,
    ),
    (
        {"scaling": "yarn", "attention": 1.5},
        slow_yarn_index(16, 1e4, 4, 64, 1, 32),
        1.5,
    ),
    ({"scaling": "llama3"}, slow_llama3(16, 1e4, 4, 64), 1),
    (
        {"scaling": "llama3", "original": 8192, "base": 5e5},
        slow_llama3(16, 5e5, 4, 8192),
        1,
    ),
    (
        {"scaling": "longrope"},
        slow_ntk(16, 1e4, 4),
        math.sqrt(1 + math.log(4) / math.log(64)),
    ),
    (
        {"scaling": "longrope", "factors": "1/1/1.1/1.2/2/3/3.5/8"},
        [1e4 ** (-m / 8) / n for m, n in enumerate([1, 1, 1.1, 1.2, 2, 3, 3.5, 8])],
        math.sqrt(1 + math.log(4) / math.log(64)),
    ),
]


class TestScaledRope(RotaryTests):
    name = "rope"
    sizes = {"model_dim": 32, "heads": 2, "length": 64}
    places = [[0, 1, 7, 60, 200, 255], [3, 4, 5, 9, 50, 11]]
    cases = [{"factor": 4.0, **options} for options, *_ in CASES]
    unchanged = {"base", "layout", "fraction"}

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        found = ({"factor": 4.0, **options} == t.case.options for options, *_ in CASES)
        _, speeds, heat = CASES[list(found).index(True)]
        return [heat**2 * cmath.exp(1j * (query - key) * speed) for speed in speeds]


@every_rule
def test_a_factor_of_one_changes_no_bit(rule: str) -> None:
    x, positions = normal(1, 2, 4, 16), torch.tensor([1, 50, 4000, 10**6])
    for length in (8, 64, 4096):
        scaled = make(trained=length, scaling=rule, factor=1.0)
        plain = make(trained=length)
        assert torch.equal(scaled.query(x, positions), plain.query(x, positions))
        assert scaled.scale(16) == plain.scale(16)


@pytest.mark.parametrize("length", [7, 16, 20, 100_000])
def test_the_ends_of_the_index_ramp_are_bounded_as_released(length: int) -> None:
    scheme = make(trained=length, scaling="yarn", factor=4.0)
    assert speeds(scheme).tolist() == pytest.approx(
        slow_yarn_index(16, 1e4, 4, length, 1, 32), rel=1e-14
    )


@pytest.mark.parametrize("options", [{"trained": 3}, {"alpha": 16.0}], ids=str)
def test_an_index_ramp_whose_ends_cross_keeps_the_fastest_pair_alone(
    options: dict[str, Any],
) -> None:
    first, *others = speeds(make(scaling="yarn", factor=4.0, **options)).tolist()
    assert first == 1
    assert others == [speed / 4 for speed in speeds(make()).tolist()[1:]]


@every_rule
def test_at_length_offers_every_rule(rule: str) -> None:
    rope = make(base=5e3, layout="half", fraction=0.5, trained=64)
    found = rope.schemes_for_length(160)
    assert tuple(found) == (*RULES[:-1], "longrope (ntk factors)")
    other = found.get(rule, found["longrope (ntk factors)"])
    options = {"base": 5e3, "layout": "half", "fraction": 0.5}
    named = make(scaling=rule, factor=2.5, **options)
    if rule == "ntk_dynamic":  # the paper's form, at this length
        named = make(scaling="ntk", factor=2.5, **options)
    x, positions = normal(1, 2, 3, 16), torch.tensor([1, 100, 159])
    assert torch.equal(other.query(x, positions), named.query(x, positions))
    assert not torch.allclose(other.query(x, positions), rope.query(x, positions))


def test_at_length_offers_nothing_within_training_or_once_scaled() -> None:
    assert make().schemes_for_length(64) == make().schemes_for_length(10) == {}
    assert make(scaling="pi", factor=2.0).schemes_for_length(128) == {}
    one_pair = make(head_dim=2).schemes_for_length(128)
    assert tuple(one_pair) == ("pi", "ntk_by_parts", "yarn", "llama3")


def test_a_subclass_is_read_with_all_that_it_adds() -> None:
    class Fading(Rope):
        """Rope with a trained bias."""

        def __init__(self, geometry: Geometry) -> None:
            super().__init__(geometry)
            self.slope = torch.nn.Parameter(torch.zeros(geometry.heads))

        def offset_bias(self, offsets: Tensor) -> Tensor:
            return self.slope[:, None] * offsets

    scheme = Fading(Geometry(model_dim=32, heads=2, length=64))
    with torch.no_grad():
        scheme.slope.fill_(2)
    for reader in scheme.schemes_for_length(128).values():
        bias = reader.offset_bias(torch.tensor([-3, 0]))
        assert bias is not None
        assert bias.tolist() == [[-6, 0], [-6, 0]]


@pytest.mark.parametrize("rule", OPTIONS)
def test_an_option_that_a_rule_has_not_is_refused(rule: str) -> None:
    given: dict[str, Any] = {"factor": 4.0, "original": 128, "alpha": 2.0}
    given |= {"beta": 5.0, "factors": "1/2/3/4/4/4/4/4"}
    given |= {"truncate": False, "attention": 2.0}
    own = {name: given[name] for name in OPTIONS[rule]}
    make(scaling=rule, **own)
    for name in given.keys() - own.keys():
        message = f"^rope: {name} must not be given with scaling={rule}, got .* would"
        with pytest.raises(ConfigError, match=message):
            make(scaling=rule, **own, **{name: given[name]})
