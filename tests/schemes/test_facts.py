"""Facts are frozen, and complete once a scheme is registered."""

import functools
import pickle
import re
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from posenc_compare.errors import PluginError
from posenc_compare.schemes import SCHEMES, Facts, Geometry, Scheme, create
from posenc_compare.schemes.scheme import HOOKS, Call

FAULTY = Facts(axes=2, known_faults={"C05": "it says so"})


def test_facts_are_hashed_copied_and_pickled() -> None:
    for other in (deepcopy(FAULTY), pickle.loads(pickle.dumps(FAULTY))):
        assert other == FAULTY
        assert hash(other) == hash(FAULTY)


def test_relative_follows_from_the_family_unless_the_class_says() -> None:
    assert SCHEMES.get("rope").facts.relative
    assert not SCHEMES.get("sinusoidal").facts.relative
    assert not SCHEMES.get("fope").facts.relative
    assert Facts().relative is None


def test_options_change_the_facts_of_the_instance_alone() -> None:
    assert create("alibi", options={"direction": "causal"}).facts.causal_only
    assert not create("alibi").facts.causal_only
    assert not SCHEMES.get("alibi").facts.causal_only


def test_a_fact_beside_the_record_is_refused() -> None:
    with pytest.raises(PluginError, match=r"Loose: causal_only must .* facts = Facts"):

        class Loose(Scheme):
            causal_only = True


@pytest.mark.parametrize("name", HOOKS)
def test_an_attribute_that_hides_a_hook_is_refused(name: str) -> None:
    for value in (2.0, nn.Parameter(torch.ones(2))):
        message = f"got '{name}'; {name}_ would work"
        with pytest.raises(PluginError, match=message):
            setattr(Scheme(Geometry()), name, value)


@pytest.mark.parametrize(
    ("hook", "method", "got"),
    [
        ("embed", lambda self, x: x, "(self, x)"),
        ("embed", lambda self, x, ids, scale: x, "(self, x, ids, scale)"),
        ("positions", lambda self, positions: positions, "(self, positions)"),
        ("query", lambda self, q, ids, *, call: q, "(self, q, ids, *, call)"),
        ("scale", 0.5, "0.5"),
    ],
)
def test_other_arguments_of_a_hook_are_refused(
    hook: str, method: object, got: str
) -> None:
    message = f"Own: {hook} must take .*, got {re.escape(got)}; `def {hook}"
    parent = type("Parent", (), {hook: method})
    for bases, own in (((Scheme,), {hook: method}), ((parent, Scheme), {})):
        with pytest.raises(PluginError, match=message):
            type("Own", bases, own)


def test_hooks_may_be_static_or_wrapped() -> None:
    def query(q: Tensor, positions: Tensor) -> Tensor:
        return 2 * q

    @functools.wraps(query)
    def wrapped(*given: Any) -> Tensor:
        return query(*given[1:])

    for hook in (staticmethod(query), wrapped, functools.partial(query)):
        own = type("Own", (Scheme,), {"query": hook})(Geometry())
        assert own.query(torch.ones(1), torch.arange(1)).tolist() == [2]
    assert not own.asks_call

    def with_call(q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return q

    def method(self: Scheme, q: Tensor, positions: Tensor, call: Any) -> Tensor:
        return q

    @functools.wraps(method)
    def without(self: Scheme, q: Tensor, positions: Tensor) -> Tensor:
        return q

    @functools.wraps(method)
    def any_arguments(*given: Any) -> Tensor:
        return method(*given)

    assert not type("Own", (Scheme,), {"query": without}).asks_call
    assert type("Own", (Scheme,), {"query": any_arguments}).asks_call == {"query"}
    for hook in (staticmethod(with_call), functools.partial(with_call)):
        assert type("Own", (Scheme,), {"query": hook}).asks_call == {"query"}
    assert not type("Own", (Scheme,), {"query": max}).asks_call  # states no arguments


def test_further_arguments_of_a_hook_have_a_default() -> None:
    def embed(self: Scheme, tokens: Tensor, ids: Tensor, scale: float = 2) -> Tensor:
        return scale * tokens

    own = type("Own", (Scheme,), {"embed": embed})(Geometry())
    assert own.embed(torch.ones(1, 2), torch.arange(1)).tolist() == [[2, 2]]
