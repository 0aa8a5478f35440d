"""A mixture against its two schemes, each computed apart."""

import cmath
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from schemes.reference import Case, SchemeTests
from schemes.tools import (
    close,
    normal,
    pair_by_pair,
    perturbed,
    rotation_by_complex,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.schemes import Geometry, Scheme, Variant
from posenc_compare.schemes.contract import schemes_for_length
from posenc_compare.schemes.shared.slopes import slopes
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


def build(name: str, geometry: Geometry = GEOMETRY, **options: Any) -> Scheme:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Variant(name, options).build(geometry).double()


@pytest.mark.parametrize(("share", "first"), [(0.25, 1), (0.5, 2), (0.75, 3)])
def test_by_heads_rope_and_alibi_pair_by_pair(share: float, first: int) -> None:
    q, k, _ = vectors(1, 4, 6, 8)
    scheme = build("mix", first="rope", second="alibi", by="heads", share=share)
    got = attention_logits(q, k, scheme=scheme, positions=torch.arange(6))
    # The other heads have the slopes that so many heads have alone.
    steep = [0.0] * first + slopes(4 - first)

    def logit(b: int, h: int, i: int, j: int) -> float:
        speeds = [10_000.0 ** (-m / 4) if h < first else 0.0 for m in range(4)]
        factors = [cmath.exp(1j * (i - j) * speed) for speed in speeds]
        rotated = rotation_by_complex(q[b, h, i], k[b, h, j], factors, "adjacent")
        return rotated - steep[h] * (i - j)

    close(got, pair_by_pair(q, logit, causal=True))


@pytest.mark.parametrize(
    ("first", "second"), [("shaw", "kerple_log"), ("dape", "pope"), ("alibi", "shaw")]
)
def test_by_heads_each_scheme_is_as_it_is_alone(first: str, second: str) -> None:
    scheme = build("mix", first=first, second=second, by="heads")
    scheme = perturbed(scheme.requires_grad_(False), 0.3)
    qkv, positions = vectors(2, 4, 9, 8), torch.arange(9) * 3
    got = attention(*qkv, scheme=scheme, positions=positions)
    inside: Any = scheme.get_submodule("inner")
    for alone, heads in ((inside.first, slice(0, 2)), (inside.second, slice(2, 4))):
        own = [x[:, heads] for x in qkv]
        expected = attention(*own, scheme=alone, positions=positions)
        close(got[:, heads], expected)


@pytest.mark.parametrize(
    ("every", "chosen"), [(1, "0123456"), (2, "135"), (4, "3"), (9, "")]
)
def test_by_layers_every_so_many_th_has_the_first(every: int, chosen: str) -> None:
    model = Decoder(
        Variant("mix", {"every": every, "second": "alibi"}), 7, GEOMETRY, seed=0
    )
    assert len(model.schemes) == 7
    found = [s.acts_at("offset_bias") for s in model.schemes if isinstance(s, Scheme)]
    assert found == [str(layer) not in chosen for layer in range(7)]


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
    assert not build("mix", by="heads").facts.per_layer
    assert build("mix", by="heads", second="fox").facts.per_layer
    assert build("mix", by="heads", second="fox").facts.causal_only
    assert not build("mix", by="heads", second="alibi").facts.causal_only
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


def test_by_heads_the_heads_that_can_be_scaled_are() -> None:
    q, places = normal(1, 4, 5, 8), torch.arange(5) * 100
    scheme = build("mix", by="heads", second="rope")
    reader = scheme.schemes_for_length(2 * GEOMETRY.length)["pi"]
    got = reader.query(q, places)
    expected = build("rope", scaling="pi", factor=2.0).query(q, places)
    assert torch.equal(got[:, :2], q[:, :2])
    assert torch.equal(got[:, 2:], expected[:, 2:])
    assert not torch.equal(scheme.query(q, places), got)


class TestMix(SchemeTests):
    name = "mix"
    sizes = vars(GEOMETRY)
    changes = [
        {"second": "alibi"},
        {"by": "heads"},
        {"every": 1},
        ({"every": 1}, {"first": "alibi"}),
        ({"by": "heads"}, {"share": 0.25}),
        {"window": 3},
    ]
    errors = [
        ({"every": 0}, "every must be at least 1, got 0"),
        *(
            (
                {"by": "heads", "share": share},
                f"share must leave heads of 4 .* got {share}",
            )
            for share in (0.0, 0.9)
        ),
        ({"second": "sinusoidal"}, ".*must act inside the layers, got sinusoidal"),
        ({"first": "shape", "by": "heads"}, ".*must act inside the layers, got shape"),
        (
            {"first": "t5_bias", "by": "heads"},
            ".*scale products alike, got t5_bias and rope",
        ),
        (
            {"first": "fox", "second": "path", "by": "heads"},
            ".*may have a token state",
        ),
        ({"window": -1}, "window must be at least 0, got -1"),
        ({"window": 3, "by": "heads"}, "window must be 0 by heads, .* got 3"),
        (
            {"first": Variant("mix", {"window": 3}), "by": "heads"},
            ".*schemes of one layer must have one window, got mix and rope",
        ),
        ({"second": "rope_2d"}, "^.*rope_2d: needs positions of 2 axes"),
        ({"second": "ropes"}, "^.*unknown scheme 'ropes'"),
        ({"by": "rows"}, "by must be layers or heads"),
    ]

    def build(self, case: Case, seed: int = 0, name: str = "mix") -> Scheme:
        return build(name, **case.options)

    def output(self, scheme: Scheme) -> Tensor:
        q, positions = normal(1, 4, 9, 8), torch.arange(9) * 5
        return attention(q, q, q, scheme=scheme, positions=positions)
