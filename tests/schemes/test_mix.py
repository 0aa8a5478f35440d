"""A mixture against the scheme of each layer, computed apart."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from schemes.reference import Case, SchemeTests
from schemes.tools import normal
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Geometry, Scheme, Variant, create
from posenc_compare.schemes.contract import schemes_for_length
from posenc_compare.train.decoder import Decoder
from posenc_compare.variants import labelled

GEOMETRY = Geometry(model_dim=32, heads=4, length=64)
PAGE = Path(__file__).parents[2] / "docs" / "schemes.md"
SWAN = "mix:first=(log_length:scheme=nope;rule=log);window=128"
BY_NAME: dict[str, tuple[int, str, int | None]] = {
    # How many layers each of the first scheme is one of, that scheme, and the window of
    # the others, which have rope.
    "mix": (4, "nope", None),
    "mix:window=128": (4, "nope", 128),
    SWAN: (4, "log_length:scheme=nope;rule=log", 128),
    "mix:every=6;first=(rope:base=1000000);window=128": (6, "rope:base=1000000", 128),
    "mix:first=(log_length:scheme=nope;rule=llama4)": (
        *(4, "log_length:scheme=nope;rule=llama4", None),
    ),
}


@pytest.mark.parametrize("built", [(0, 0), (1, 0)])
def test_schemes_that_differ_by_layer_are_in_order(built: tuple[int, int]) -> None:
    ids, layers = torch.arange(5), [create("mix", layer=i, layers=2) for i in built]
    got = f"got those of layers {built[0]}, {built[1]};"
    with pytest.raises(ConfigError, match=got):
        Session(layers, ids)


def test_schemes_that_differ_by_layer_stand_beside_others() -> None:
    ids, one = torch.arange(5), create("mix")
    Session([one, create("mix", layer=1, layers=2), create("rope")], ids)
    Session([create("mix:first=rope;second=rope") for _ in range(2)], ids)


def build(name: str, geometry: Geometry = GEOMETRY, **options: Any) -> Scheme:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Variant(name, options).build(geometry).double()


def test_the_page_names_these_mixtures() -> None:
    rows = PAGE.read_text().split("## Mixtures of layers by name")[1].split("##")[0]
    assert re.findall(r"\| `(mix[^`]*)` \|", rows) == [*BY_NAME]


@pytest.mark.parametrize("text", BY_NAME)
def test_a_mixture_by_name_has_its_parts_where_they_belong(text: str) -> None:
    every, first, window = BY_NAME[text]
    q, positions = normal(2, 4, 200, 8), torch.arange(200)  # 64 were trained
    for layer in range(12):
        geometry = replace(GEOMETRY, layer=layer, layers=12)
        near = (layer + 1) % every > 0
        part = labelled("rope" if near else first).build(geometry).double()
        mask = Mask(window=window if near else None)
        mixed = labelled(text).build(geometry).double()
        got = attention(q, q, q, scheme=mixed, positions=positions)
        wanted = attention(q, q, q, scheme=part, positions=positions, mask=mask)
        assert torch.equal(got, wanted)


def test_facts_follow_the_parts() -> None:
    assert build("mix").facts.per_layer
    assert build("mix", second="xpos").facts.causal_only


def test_under_a_scaling_each_layer_stays_what_it_is() -> None:
    model = Decoder(Variant("mix"), 4, GEOMETRY, seed=0)
    q, places = normal(1, 4, 5, 8), torch.arange(5) * 100

    def turned() -> list[Tensor]:
        return [scheme.query(q, places) for scheme in model.reading]

    before = turned()
    readers = schemes_for_length(model.own, 2 * GEOMETRY.length)
    assert (
        readers.keys() == build("rope").schemes_for_length(2 * GEOMETRY.length).keys()
    )
    with model.use_schemes(readers["pi"]):
        expected = build("rope", scaling="pi", factor=2.0).query(q, places)
        *firsts, last = turned()
        assert all(torch.equal(got, expected) for got in firsts)
        assert torch.equal(last, q)  # the fourth is without positions
    assert all(map(torch.equal, turned(), before))


class TestMix(SchemeTests):
    name = "mix"
    sizes = vars(GEOMETRY)
    changes = [
        {"second": "alibi"},
        {"every": 1},
        ({"every": 1}, {"first": "alibi"}),
        {"window": 3},
    ]

    def build(self, case: Case, seed: int = 0, name: str = "mix") -> Scheme:
        return build(name, **case.options)

    def output(self, scheme: Scheme) -> Tensor:
        q, positions = normal(1, 4, 9, 8), torch.arange(9) * 5
        return attention(q, q, q, scheme=scheme, positions=positions)
