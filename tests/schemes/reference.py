"""The checks that every scheme's slow reference goes through.

A scheme derives a class from `BiasTests`, `RotaryTests`, `EmbedTests` or, where a
formula is none of these, from `LogitTests`. The class states the formula in float64,
the cases it is compared in, and what the other options change. The tests are inherited;
those of one scheme alone are methods of its class. What schemes refuse is in
`test_refused_options.py`, how parameters start in `test_starts.py`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import pytest
import torch
from schemes.tools import (
    check_causal_mask_is_needed,
    close,
    drawn,
    normal,
    on_paths,
    pair_by_pair,
    perturbed,
    rotation_by_complex,
    seeded,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, Path, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.variants import labelled, option_types

SIZES = ("model_dim", "heads", "head_dim", "length")
Options = Mapping[str, Any]


class Case:
    """Options of a scheme, and sizes that differ from those of its class of tests."""

    def __init__(self, options: Options | None = None, /, **sizes: int) -> None:
        self.options, self.sizes = dict(options or {}), sizes

    def __str__(self) -> str:
        both = {**self.sizes, **self.options}
        return ",".join(f"{name}={value}" for name, value in both.items()) or "default"


def combine(**choices: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the options of every combination of values."""
    return [
        dict(zip(choices, values, strict=True)) for values in product(*choices.values())
    ]


def label(value: Any) -> str:
    """Return the options of a case, or before and after a change."""
    parts = value if isinstance(value, tuple) else (value,)
    return " to ".join(str(as_case(part)) for part in parts)


def as_case(case: Case | Options | None) -> Case:
    return case if isinstance(case, Case) else Case(case)


@dataclass(frozen=True)
class Inputs:
    """What a reference computes with.

    Attributes:
        scheme: built in float64, with trained parameters.
        case: its options and sizes.
        q: queries (batch, heads, length, head_dim); `k` and `v` likewise.
        x: hidden states (batch, length, model_dim).
        positions: (batch, length), or (batch, length, axes).
    """

    scheme: Any
    case: Case
    q: Tensor
    k: Tensor
    v: Tensor
    x: Tensor
    positions: Tensor

    @property
    def axes(self) -> int:
        """Return the number of coordinates of a position."""
        return self.scheme.facts.axes

    def option(self, name: str) -> Any:
        """Return the value of an option, given or default."""
        default = option_types(self.scheme.name)[name][1]
        return self.case.options.get(name, default)


class SchemeTests:
    """Options of a scheme.

    Attributes:
        name: the registered name.
        sizes: of the layer, for `create`.
        noise: what is added to parameters; None replaces them by normal numbers.
        cases: options that the reference is compared in.
        changes: options that are in no case, or that the reference does not read, and
            that change the output; or pairs of options before and after.
        unchanged: options whose change is looked at elsewhere.
    """

    name: ClassVar[str]
    sizes: ClassVar[Mapping[str, int]] = {"model_dim": 16, "heads": 2, "head_dim": 8}
    noise: ClassVar[float | None] = None
    cases: ClassVar[Sequence[Case | Options]] = ({},)
    changes: ClassVar[Sequence[Options | tuple[Options, Options]]] = ()
    unchanged: ClassVar[Set[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Leave out the tests that a scheme states nothing for."""
        if not hasattr(cls, "name"):  # a class that others derive from
            return
        for test, table in (
            ("test_each_option_changes_the_output", cls.changes),
            ("test_is_another_scheme", getattr(cls, "identities", ())),
            ("test_starts_as_another_scheme", getattr(cls, "starts_as", ())),
        ):
            if not table:
                setattr(cls, test, None)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        for argument, values in (
            ("case", [as_case(case) for case in self.cases]),
            ("change", self.changes),
        ):
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, values, ids=label)

    def build(self, case: Case, seed: int = 0, name: str = "") -> Any:
        """Return the scheme in float64, as it starts."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            sizes: dict[str, Any] = {**self.sizes, **case.sizes}
            scheme = create(name or self.name, options=case.options, **sizes)
            return scheme.double()

    def make(
        self, noise: float = 0.0, *, seed: int = 0, name: str = "", **given: Any
    ) -> Any:
        """Return the scheme of these sizes and options, with noise on parameters.

        Args:
            noise: standard deviation of what is added to parameters.
            seed: of its draws.
            name: another scheme of the same sizes.
            given: sizes and options.
        """
        sizes = {size: given.pop(size) for size in SIZES if size in given}
        return perturbed(self.build(Case(given, **sizes), seed, name), noise)

    def drawn(self, **given: Any) -> Any:
        """Return the scheme of these sizes and options, with drawn parameters."""
        return drawn(self.make(**given))

    def trained(self, case: Case) -> Any:
        """Return the scheme with parameters that are not those it starts with."""
        scheme = self.build(case)
        scheme = drawn(scheme) if self.noise is None else perturbed(scheme, self.noise)
        return scheme.requires_grad_(False)

    def output(self, scheme: Any) -> Tensor:
        """Return what a scheme makes of fixed inputs."""
        raise NotImplementedError

    def test_each_option_changes_the_output(self, change: Any) -> None:
        before, after = change if isinstance(change, tuple) else ({}, change)
        one, other = (
            self.output(perturbed(self.build(Case(options)), 0.2).requires_grad_(False))
            for options in (before, {**before, **after})
        )
        assert (one - other).abs().max() > 1e-4

    def test_every_option_is_in_a_case_or_changed(self) -> None:
        changed = {*self.unchanged}
        for case in self.cases:
            changed |= set(as_case(case).options)
        for change in self.changes:
            changed |= set(change[1] if isinstance(change, tuple) else change)
        assert changed == set(option_types(self.name))


class LogitTests(SchemeTests):
    """A scheme inside attention, against logits of all pairs.

    Attributes:
        places: positions of two sequences.
        atol: largest absolute difference of logits and outputs.
        rtol: largest relative difference.
        causal: whether a causal mask is needed; None where an option decides.
        identities: options, values of parameters, and what scheme it is then.
        starts_as: options, and what scheme it is before training, up to float32.
    """

    places: ClassVar[Any] = [[0, 1, 2, 40, 7, 300], [3, 4, 5, 9, 50, 11]]
    atol: ClassVar[float] = 1e-12
    rtol: ClassVar[float] = 0.0
    causal: ClassVar[bool | None] = False
    identities: ClassVar[Sequence[tuple[Options, Mapping[str, Any], str]]] = ()
    starts_as: ClassVar[Sequence[tuple[Options, str]]] = ()

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        """Return the logit of query i and key j by the formula."""
        raise NotImplementedError

    def logits(self, t: Inputs) -> Tensor:
        """Return the logits of all pairs by the formula, without a mask."""
        causal = t.scheme.facts.causal_only
        return pair_by_pair(t.q, lambda *pair: self.logit(t, *pair), causal)

    def read(self, t: Inputs, logits: Tensor) -> Tensor:
        """Return the outputs of masked logits."""
        return logits.softmax(dim=-1) @ t.v

    def inputs(self, case: Case, scheme: Any = None) -> Inputs:
        scheme = self.trained(case) if scheme is None else scheme
        geometry, positions = scheme.geometry, torch.tensor(self.places)
        batch, length = positions.shape[:2]
        qkv = vectors(batch, geometry.heads, length, geometry.head_dim)
        x = normal(batch, length, geometry.model_dim, seed=3)
        return Inputs(scheme, case, *qkv, x, positions)

    def output(self, scheme: Any) -> Tensor:
        t = self.inputs(Case(), scheme)
        call = {"scheme": scheme, "positions": t.positions}
        state = scheme.token_state(t.x)
        return attention(t.q, t.k, t.v, state=state, **call)

    def near(self, got: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(got, expected, rtol=self.rtol, atol=self.atol)

    def test_equals_the_reference(self, case: Case) -> None:
        t = self.inputs(case)
        call = {"scheme": t.scheme, "positions": t.positions}
        call["state"] = t.scheme.token_state(t.x)
        whole, length = self.logits(t), t.q.shape[2]
        future = torch.ones(length, length).triu(1).bool()
        masked = whole.masked_fill(future, -math.inf)
        self.near(attention_logits(t.q, t.k, **call), masked)
        biased = any(map(t.scheme.acts_at, ("offset_bias", "pair_bias")))
        flex = biased and str(case) == str(as_case(self.cases[0]))
        out = self.read(t, masked)
        for got in served(t.q, t.k, t.v, flex=flex, **call):
            self.near(got, out)
        assert self.causal in (t.scheme.facts.causal_only, None)
        if t.scheme.facts.causal_only:
            check_causal_mask_is_needed(t.scheme, t.scheme.geometry.head_dim)
        else:
            mask = Mask(causal=False)
            self.near(attention_logits(t.q, t.k, mask=mask, **call), whole)
            out = self.read(t, whole)
            for got in served(t.q, t.k, t.v, mask=mask, **call):
                self.near(got, out)

    def beside(self, t: Inputs, other: str) -> tuple[Tensor, Tensor]:
        """Return the outputs of a scheme and of another one of the same geometry."""
        same, found = labelled(other).build(t.scheme.geometry).double(), []
        for scheme in (t.scheme, same):
            positions = t.positions
            if t.axes > scheme.facts.axes:
                positions = positions[..., 0]
            call = {"positions": positions, "state": scheme.token_state(t.x)}
            with torch.no_grad():
                found.append(attention(t.q, t.k, t.v, scheme=scheme, **call))
        return found[0], found[1]

    def test_is_another_scheme(self) -> None:
        for options, filled, other in self.identities:
            t = self.inputs(Case(options))
            for name, value in filled.items():
                value = torch.as_tensor(value, dtype=torch.float64)
                t.scheme.get_parameter(name).copy_(value)
            self.near(*self.beside(t, other))

    def test_starts_as_another_scheme(self) -> None:
        for options, other in self.starts_as:
            case = Case(options)
            close(*self.beside(self.inputs(case, self.build(case)), other), 1e-5)


def served(
    q: Tensor, k: Tensor, v: Tensor, flex: bool = False, **call: Any
) -> Iterable[Tensor]:
    """Yield the output of every path that serves a call; `plain` always does.

    Args:
        q: queries.
        k: keys.
        v: values.
        flex: whether FlexAttention is among them, which is slow on a CPU, so that
            one case of a scheme runs on it.
        call: the other arguments of `attention`.
    """
    paths: tuple[Path, ...] = ("fused", "strided", "dense", "flex")
    for path in paths if flex else paths[:3]:
        try:
            out = on_paths(q, k, v, paths=[path], **call)[0]
        except ConfigError as error:
            if "cannot serve" not in str(error):
                raise
            continue
        yield out
    yield on_paths(q, k, v, paths=["plain"], **call)[0]


class BiasTests(LogitTests):
    """A scheme that adds a bias of two positions to products of queries and keys.

    Attributes:
        scale: of the products; None is 1 / sqrt(head_dim).
    """

    scale: ClassVar[float | None] = None

    def bias(self, t: Inputs, h: int, query: Any, key: Any) -> float:
        """Return the bias of a head at the positions of a query and a key."""
        raise NotImplementedError

    def logits(self, t: Inputs) -> Tensor:
        places = t.positions.tolist()

        def entry(b: int, h: int, i: int, j: int) -> float:
            return self.bias(t, h, places[b][i], places[b][j])

        scale = t.q.shape[-1] ** -0.5 if self.scale is None else self.scale
        causal = t.scheme.facts.causal_only
        return t.q @ t.k.mT * scale + pair_by_pair(t.q, entry, causal)


class RotaryTests(LogitTests):
    """A scheme that multiplies each pair of channels by a complex factor."""

    places: ClassVar[Any] = [[0, 1, 2, 100, 500, -4], [3, 4, 5, 9, 50, 11]]

    def factors(self, t: Inputs, h: int, query: Any, key: Any) -> list[complex]:
        """Return the factor of every pair at the positions of a query and a key."""
        raise NotImplementedError

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        query, key = t.positions[b, i].tolist(), t.positions[b, j].tolist()
        factors, layout = self.factors(t, h, query, key), t.option("layout")
        return rotation_by_complex(t.q[b, h, i], t.k[b, h, j], factors, layout)


class EmbedTests(SchemeTests):
    """A scheme that changes token vectors before the first layer.

    Attributes:
        places: positions of two sequences.
    """

    sizes: ClassVar[Mapping[str, int]] = {"model_dim": 8, "heads": 1}
    places: ClassVar[Any] = [[0, 1, 5, 63, 500, -3], [7, 3, 2, 12, 0, 400]]

    def code(self, scheme: Any, case: Case, position: Any) -> list[float]:
        """Return what is added to a token at a position."""
        raise NotImplementedError

    def embedded(self, scheme: Any, case: Case, token: Tensor, position: Any) -> Tensor:
        """Return the vector of a token at a position."""
        code = self.code(scheme, case, position)
        return token + torch.tensor(code, dtype=torch.float64)

    def output(self, scheme: Any) -> Tensor:
        positions = torch.tensor(self.places)
        width = scheme.geometry.model_dim
        zero = torch.zeros(*positions.shape[:2], width, dtype=torch.float64)
        return scheme.embed(zero, scheme.positions(positions, seeded()))

    def slow(self, scheme: Any, case: Case, x: Tensor, places: Any) -> Tensor:
        rows = [
            [self.embedded(scheme, case, *both) for both in zip(*row, strict=True)]
            for row in zip(x, places, strict=True)
        ]
        return torch.stack([torch.stack(row) for row in rows])

    def test_equals_the_reference(self, case: Case) -> None:
        scheme = self.trained(case)
        x = normal(2, len(self.places[0]), scheme.geometry.model_dim)
        got = scheme.embed(x, torch.tensor(self.places))
        close(got, self.slow(scheme, case, x, self.places))
        alone = scheme.embed(x[:1], torch.tensor(self.places[0]))
        close(alone, got[:1], 0)

    def test_autocast_changes_nothing(self) -> None:
        scheme = self.trained(as_case(self.cases[0])).float()
        places = torch.tensor(self.places)
        x = normal(*places.shape[:2], scheme.geometry.model_dim).float()
        plain = scheme.embed(x, places)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(scheme.embed(x, places), plain)
