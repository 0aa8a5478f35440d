"""A scheme inside a scheme: written in brackets, checked before anything runs."""

import json

import pytest

from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import Cell, cell_of, schemes_of
from posenc_compare.records.record import Spec, parse
from posenc_compare.schemes import Geometry, Variant, parse_variants
from posenc_compare.settings.probe import ProbeSetting

MIX = "mix:first=(alibi);second=(rope:base=500000)"
DEEP = "randomized:scheme=(mix:first=(rope:base=3;layout=half);second=alibi);longest=9"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("randomized:scheme=rope", "randomized:scheme=rope"),
        ("randomized:scheme=(rope)", "randomized:scheme=rope"),
        ("randomized:scheme=(rope:base=10000)", "randomized:scheme=rope"),
        ("randomized:scheme=sinusoidal", "randomized"),
        ("randomized:scheme=(rope:base=5e5)", "randomized:scheme=(rope:base=500000.0)"),
        (MIX, "mix:first=alibi;second=(rope:base=500000.0)"),
        (
            DEEP,
            "randomized:longest=9;scheme=(mix:first=(rope:base=3.0;layout=half);"
            "second=alibi)",
        ),
    ],
)
def test_a_label_reads_as_what_it_came_from(text: str, label: str) -> None:
    (variant,) = parse_variants(text)
    assert variant.label == label
    assert parse_variants(label) == [variant]
    options = json.loads(json.dumps(variant.options))
    assert Variant(variant.name, options) == variant
    cell = Cell(variant, "smoothness", ProbeSetting(), 1)
    spec = json.loads(json.dumps(cell.spec().to_json()))
    assert cell_of(parse(spec, Spec, "spec"), ()).variant == variant


def test_of_a_list_brackets_hide_commas_semicolons_and_colons() -> None:
    found = parse_variants(f"alibi,{DEEP},{MIX}")
    assert [variant.name for variant in found] == ["alibi", "randomized", "mix"]


def test_a_bare_scheme_inside_keeps_the_key_it_had() -> None:
    assert Variant("randomized", {"scheme": "rope"}).options == {"scheme": "rope"}
    assert Variant("randomized", {"scheme": Variant("rope")}).options == {
        "scheme": "rope"
    }
    assert parse_variants("dape:base=fire")[0].options == {"base": "fire"}
    given = Variant("shape", {"scheme": Variant("rope", {"base": 5})})
    assert given.options == {"scheme": "rope:base=5.0"}


def test_what_is_inside_has_the_options() -> None:
    (variant,) = parse_variants("randomized:scheme=(rope:base=500)")
    assert variant.build(Geometry()).inner.base == 500.0
    (variant,) = parse_variants("mix:first=(rope:base=7);every=1")
    assert variant.build(Geometry()).inner.base == 7.0
    (variant,) = parse_variants("dape:base=(alibi:direction=causal)")
    assert variant.build(Geometry()).base.facts.causal_only


def test_all_schemes_inside_count_and_no_others() -> None:
    assert parse_variants(DEEP)[0].schemes == ["alibi", "mix", "randomized", "rope"]
    assert schemes_of(parse_variants(DEEP)[0]) == parse_variants(DEEP)[0].schemes
    assert parse_variants("randomized:scheme=rope")[0].schemes == ["randomized", "rope"]
    assert Variant("mix").schemes == ["mix", "nope", "rope"]
    given = Variant("mix", {"first": "alibi", "second": "dape"})
    assert given.schemes == ["alibi", "dape", "mix"]  # dape is around alibi
    assert Variant("shape").schemes == ["shape", "sinusoidal"]
    assert Variant("cape").schemes == ["cape", "sinusoidal"]  # by its name alone


@pytest.mark.parametrize("given", [3, None, ["rope"], {"name": "rope"}])
def test_a_value_that_stands_for_no_scheme(given: object) -> None:
    with pytest.raises(ConfigError, match="randomized: scheme must be a scheme, got"):
        Variant("randomized", {"scheme": given})
