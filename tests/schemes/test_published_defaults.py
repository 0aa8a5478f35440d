"""Defaults that a paper states for its training length, at other lengths."""

from itertools import product
from typing import Any

import pytest
import torch
from schemes.tools import normal, seeded
from torch import Tensor

from posenc_compare.check import Subject, built_in
from posenc_compare.check.harness import WIDTH, Layer
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import Geometry, Lengths, Published, Variant, create
from posenc_compare.variants import labelled, option_types

LENGTHS = 64, 128, 512
TIED = [(name, option) for name in built_in() for option in SCHEMES.get(name).published]
# The number of the paper, its training length, and multiples at 64, 128 and 512.
PAPERS = {
    ("deberta", "reach"): (512, 512, (64, 128, 512)),
    ("dual_chunk", "chunk"): (2560, 4096, (40, 80, 320)),
    ("dual_chunk", "local"): (512, 4096, (8, 16, 64)),
    ("fire", "threshold"): (512, 2048, (16, 32, 128)),
    ("pose", "target"): (16_384, 2048, (512, 1024, 4096)),
    ("randomized", "longest"): (2048, 40, (3277, 6554, 26214)),
    ("randomized_distance", "longest"): (2048, 40, (3277, 6554, 26214)),
    ("rerope", "window"): (1024, 4096, (16, 32, 128)),
    ("self_extend", "window"): (1024, 4096, (16, 32, 128)),
    ("string_rope", "shift"): (43_253, 131_072, (21, 42, 169)),
    ("string_rope", "window"): (128, 2048, (4, 8, 32)),
    # A quarter is 16 and 32; no fewer positions than the 32 buckets.
    ("t5_bias", "max_distance"): (128, 512, (32, 32, 128)),
    ("xpos", "scale_base"): (512, 1024, (32, 64, 256)),
}
AROUND = [
    "randomized:scheme=t5_bias",
    "shape:scheme=deberta",
    "mix:first=fire;every=1",
    "dape:base=t5_bias",
]
NAMES = {name for name, _ in TIED}
PLACES = torch.arange(60) * 5  # from within the scaled numbers to far beyond


def output(label: str, lengths: Lengths, length: int = 64) -> Tensor:
    """Return what a layer makes of tokens at `PLACES`; draws are those of a seed."""
    scheme = Subject(labelled(label)).build(length, lengths=lengths).train()
    x = normal(1, len(PLACES), WIDTH)
    return Layer(scheme)(x, PLACES[None], generator=seeded(1))


def test_every_number_of_a_paper_is_listed() -> None:
    assert {*TIED} == {*PAPERS}


@pytest.mark.parametrize(("name", "option"), PAPERS)
def test_published_defaults_are_those_of_the_paper(name: str, option: str) -> None:
    value, trained_at, scaled = PAPERS[name, option]
    scheme = SCHEMES.get(name)
    assert scheme.published[option] == Published(value, trained_at)
    assert scheme.defaults_at(trained_at)[option] == value
    for length, multiple in zip(LENGTHS, scaled, strict=True):
        assert scheme.defaults_at(length)[option] == multiple
        assert scheme.defaults_at(length, "published")[option] == value
    assert option_types(name)[option][1] == 0
    assert labelled(f"{name}:{option}=0").label == name


@pytest.mark.parametrize(("name", "option"), TIED)
def test_the_default_computes_what_the_option_does(name: str, option: str) -> None:
    scheme = SCHEMES.get(name)
    value, shown = scheme.published[option].positions, scheme.defaults_at(64)[option]
    assert torch.equal(
        output(name, "scaled"), output(f"{name}:{option}={shown}", "scaled")
    )
    paper = output(name, "published")
    assert torch.equal(paper, output(f"{name}:{option}={value}", "published"))
    assert not torch.equal(paper, output(name, "scaled"))


@pytest.mark.parametrize(("name", "option"), TIED)
def test_an_option_that_is_given_is_used_as_given(name: str, option: str) -> None:
    given = {"longest": 400, "shift": 400, "window": 10}.get(option, 40)
    for length, lengths in product(LENGTHS, ("scaled", "published")):
        scheme = create(name, options={option: given}, length=length, lengths=lengths)
        assert getattr(scheme, option) == given


@pytest.mark.parametrize("name", sorted(set(built_in()) - NAMES))
def test_other_schemes_are_the_same_under_both(name: str) -> None:
    kept: list[list[Any]] = []
    for lengths in ("scaled", "published"):
        subject = Subject(Variant(name))
        scheme = subject.build(64, lengths=lengths)
        x, positions = normal(2, 9, WIDTH), subject.positions(9, length=64)
        kept.append([*scheme.parameters(), Layer(scheme)(x, positions)])
    assert all(map(torch.equal, *kept))


@pytest.mark.parametrize("label", AROUND)
def test_the_policy_reaches_the_scheme_inside(label: str) -> None:
    scaled, published = (output(label, lengths) for lengths in ("scaled", "published"))
    assert not torch.equal(scaled, published)


def test_the_numbers_at_lengths_between_are_rounded_and_at_least_one() -> None:
    published = Published(128, trained_at=512)
    got = [Geometry(length=n).positions(published) for n in (1, 2, 7, 10, 100, 2049)]
    assert got == [1, 1, 2, 2, 25, 512]
    whole = Geometry(length=1, lengths="published").positions(published)
    assert whole == 128


def test_buckets_of_t5_decide_the_least_distance() -> None:
    for options, least in (({"buckets": 64}, 64), ({"bidirectional": True}, 16)):
        scheme: Any = create("t5_bias", options=options, length=8)
        assert scheme.max_distance == least
