"""A wrapper that changes nothing is the scheme inside it, through every hook."""

import pytest
import torch
from schemes.tools import normal, perturbed

from posenc_compare.schemes import HOOKS, SCHEMES, Geometry, Scheme, Variant
from posenc_compare.schemes.shared.rotation import rotation_angles
from posenc_compare.schemes.wrapper import Wrapper

GEOMETRY = Geometry(model_dim=16, heads=2, length=64)
LINE = [n for n, e in SCHEMES.entries().items() if e.facts.get("axes", 1) == 1]


def built(name: str) -> Scheme:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        scheme = Variant(name).build(GEOMETRY).double().eval()
    return perturbed(scheme, 0.3)


@pytest.mark.parametrize("name", LINE)
def test_facts_are_those_of_the_scheme_inside(name: str) -> None:
    inner = built(name)
    outer = Wrapper(GEOMETRY, inner)
    assert outer.facts == inner.facts
    assert [outer.acts_at(d) for d in HOOKS] == [inner.acts_at(d) for d in HOOKS]
    assert outer.scale(8) == inner.scale(8)
    assert outer.query_init_gain(8) == inner.query_init_gain(8)
    angles, expected = (rotation_angles(s, torch.arange(5)) for s in (outer, inner))
    assert (angles is None) == (expected is None)
    if angles is not None and expected is not None:
        assert torch.equal(angles, expected)


def test_facts_belong_to_the_instance() -> None:
    Wrapper(GEOMETRY, built("pope"))
    assert not Wrapper(GEOMETRY, built("rope")).facts.per_layer
    assert not Wrapper.facts.per_layer


def test_readers_at_a_length_are_wrapped_and_share_nothing() -> None:
    outer = Wrapper(GEOMETRY, built("rope"))
    inside = outer.inner
    readers = outer.schemes_for_length(256)
    assert readers.keys() == inside.schemes_for_length(256).keys() != set()
    q = normal(1, 2, 3, 8)
    for name, reader in readers.items():
        assert isinstance(reader, Wrapper)
        expected = inside.schemes_for_length(256)[name].query(q, torch.arange(3) * 50)
        assert torch.equal(reader.query(q, torch.arange(3) * 50), expected)
    assert outer.inner is inside


@pytest.mark.parametrize("name", ["randomized", "shape"])
def test_new_ids_are_read_as_they_are(name: str) -> None:
    scheme = Variant(name, {"scheme": "rope"}).build(GEOMETRY)
    assert scheme.schemes_for_length(10 * GEOMETRY.length) == {}
