"""Schemes with options, as typed on the command line."""

from typing import Any, Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_compare.check import built_in
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import SCHEMES, Geometry, Variant, create, parse_variants
from posenc_compare.schemes.alibi import Alibi
from posenc_compare.schemes.rope import Rope
from posenc_compare.variants import option_types


def labels(text: str) -> list[str]:
    return [variant.label for variant in parse_variants(text)]


# --- reading ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rope", ["rope"]),
        ("alibi,rope", ["alibi", "rope"]),
        (" rope , alibi ,, ", ["rope", "alibi"]),
        ("rope:base=500000", ["rope:base=500000.0"]),
        ("rope:base=5e5", ["rope:base=500000.0"]),
        ("rope: base = 5e5 ; layout = half ", ["rope:base=500000.0;layout=half"]),
        ("rope:layout=half;base=100", ["rope:base=100.0;layout=half"]),
        ("rope:base=10000", ["rope"]),
        ("rope:", ["rope"]),
        ("rope:;", ["rope"]),
        ("rope,rope,rope:base=10000", ["rope"]),
        ("rope,rope:base=100", ["rope", "rope:base=100.0"]),
        ("binary:bits=4;signed=yes", ["binary:bits=4;signed=true"]),
        ("none", ["nope"]),
        ("nope,none,n?pe", ["nope"]),
        ("rop?:base=7", ["rope:base=7.0"]),
        ("[r]ope:base=7,rope", ["rope:base=7.0", "rope"]),
    ],
)
def test_labels(text: str, expected: list[str]) -> None:
    assert labels(text) == expected


def test_all_is_every_scheme() -> None:
    assert labels("all") == list(SCHEMES.entries())


def test_a_family_or_a_glob_is_each_of_its_schemes() -> None:
    assert {"alibi", "t5_bias"} <= set(labels("bias"))
    assert labels("bias") == SCHEMES.select("bias")
    others = [name for name in SCHEMES.select("relative") if name != "rope"]
    assert labels("rope,relative") == ["rope", *others]
    waves = SCHEMES.select("sinusoidal*")
    assert len(waves) > 1
    assert labels("sinusoidal*:base=7") == [f"{name}:base=7.0" for name in waves]


def test_a_family_of_no_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEMES.groups, "bias", ("nobody's",))
    with pytest.raises(ConfigError, match="no scheme named; try `--schemes all`"):
        parse_variants("bias")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("binary:signed=true", True),
        ("binary:signed=TRUE", True),
        ("binary:signed=1", True),
        ("binary:signed=yes", True),
        ("integer:normalised=false", False),
        ("integer:normalised=No", False),
        ("integer:normalised=0", False),
        ("binary:bits=+7", 7),
        ("t5_bias:max_distance=64", 64),
        ("rope:fraction=.5", 0.5),
        ("rope:base=3", 3.0),
        ("alibi:direction=causal", "causal"),
    ],
)
def test_values_have_the_type_of_the_option(text: str, value: object) -> None:
    (variant,) = parse_variants(text)
    (read,) = variant.options.values()
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no scheme named; try `--schemes all`"),
        (" , ", "no scheme named; try `--schemes all`"),
        ("roope", "unknown scheme 'roope'; did you mean rope"),
        ("rope:bas=3", r"rope: no option 'bas'; did you mean base\?"),
        ("t5_bias:zzz=3", "no option 'zzz'; it takes bidirectional, buckets, max_dis"),
        ("rope;base=3", "must follow a colon, .* got 'rope;base=3'"),
        ("nope:base=3", "nope: no option 'base'; it takes none"),
        ("bias:direction=causal", r"^(?!alibi:)\w+: no option 'direction'"),
        ("rope:base", "rope: an option must read key=value, got 'base'"),
        ("rope:base=", "rope: base must be a finite number, got ''"),
        ("rope:base=big", "rope: base must be a finite number, got 'big'"),
        ("rope:base=nan", "rope: base must be a finite number, got 'nan'"),
        ("rope:base=inf", "rope: base must be a finite number, got 'inf'"),
        ("rope:layout=full", "rope: layout must be adjacent or half, got 'full'"),
        ("binary:bits=3.5", r"binary: bits must be a whole number, got '3\.5'"),
        ("binary:bits=true", "binary: bits must be a whole number, got 'true'"),
        ("binary:signed=2", "binary: signed must be true or false, got '2'"),
        ("rope:geometry=1", "rope: no option 'geometry'"),
        ("rope:base=1;base=2", "rope: .*base.*twice"),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_variants(text)


def test_long_nonsense_is_cut_in_the_message() -> None:
    for text in ("x" * 999, "rope:" + "x" * 999, "rope:base=" + "x" * 999):
        with pytest.raises(ConfigError, match=r"x{80}'") as caught:
            parse_variants(text)
        assert len(str(caught.value)) < 200


# --- building ---------------------------------------------------------------------


def test_build_passes_the_options() -> None:
    options = {"base": 100.0, "layout": "half", "fraction": 0.5}
    scheme = Variant("rope", options).build(Geometry(head_dim=8))
    assert isinstance(scheme, Rope)
    assert (scheme.base, scheme.layout, scheme.rotated_dims) == (100.0, "half", 4)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rope", {"base": "100"}, "rope: base must be a finite number, got '100'"),
        ("rope", {"base": True}, "rope: base must be a finite number, got 'True'"),
        ("rope", {"base": None}, "rope: base must be a finite number, got 'None'"),
        ("rope", {"base": float("inf")}, "rope: base must be a finite number"),
        ("rope", {"base": float("nan")}, "rope: base must be a finite number"),
        ("rope", {"base": 10**400}, "rope: base must be a finite number"),
        ("rope", {"layout": ["half"]}, "rope: layout must be adjacent or half"),
        ("rope", {"layout": 1}, "rope: layout must be adjacent or half, got 1"),
        ("binary", {"bits": 4.0}, r"binary: bits must be a whole number, got '4\.0'"),
        ("binary", {"bits": True}, "binary: bits must be a whole number, got 'True'"),
        ("binary", {"signed": 1}, "binary: signed must be true or false, got 1"),
        ("rope", {"geometry": 1}, "rope: no option 'geometry'"),
        ("rope", {"Base": 1.0}, r"rope: no option 'Base'; did you mean base\?"),
        ("roe", {}, "unknown scheme 'roe'; did you mean rope"),
    ],
)
def test_build_refuses(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Variant(name, options).build(Geometry())


def test_whole_numbers_serve_as_numbers() -> None:
    scheme = create("rope", options={"base": 100})
    assert isinstance(scheme, Rope)
    assert scheme.base == 100


def test_create_takes_a_label_and_options_before_those_of_the_label() -> None:
    built = create("rope:layout=half;base=5", options={"base": 7.0}, heads=4)
    assert (built.layout, built.base) == ("half", 7.0)


def test_create_passes_sizes() -> None:
    scheme = create("alibi", model_dim=24, heads=3)
    assert isinstance(scheme, Alibi)
    assert scheme.geometry == Geometry(model_dim=24, heads=3, head_dim=8, length=512)
    assert len(scheme.slopes) == 3


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"width": 3}, "create: sizes must be among model_dim.*, got width; opt"),
        ({"heads": 0}, "geometry: heads must be a whole number of at least 1, got 0"),
        ({"heads": "4"}, "geometry: heads must be a whole number of at least 1, got "),
        ({"model_dim": -8}, "geometry: model_dim must be .*, got -8"),
        ({"head_dim": 2.5}, r"geometry: head_dim must be .*, got 2\.5"),
        ({"length": 0}, "geometry: length must be .*, got 0"),
        ({"length": "9"}, "geometry: length must be .*, got '9'"),
        ({"model_dim": 4, "heads": 8}, "geometry: head_dim must be .*, got 0"),
    ],
)
def test_create_refuses_sizes(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create("nope", **sizes)


def test_option_types() -> None:
    assert option_types("t5_bias") == {
        "buckets": (int, 32),
        "max_distance": (int, 0),
        "bidirectional": (bool, False),
    }
    assert option_types("sinusoidal") == {
        "base": (float, 10_000.0),
        "layout": (Literal["interleaved", "concatenated", "t2t"], "interleaved"),
    }
    assert option_types("dape")["base"] == (Variant, "alibi")
    assert option_types("randomized")["scheme"] == (Variant, "sinusoidal")
    assert option_types("nope") == {}


@pytest.mark.parametrize("name", built_in())
def test_every_option_of_every_scheme_can_be_typed(name: str) -> None:
    for key, (kind, default) in option_types(name).items():
        stored = str if kind is Variant else kind
        assert type(default) is stored or default in get_args(kind), key
        assert isinstance(default, bool | int | float | str)


def test_family_of_a_variant() -> None:
    assert Variant("alibi").family == "bias"
    assert Variant("rope", {"base": 3.0}).family == "rotary"


# --- label round trip -------------------------------------------------------------

FINITE = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(10**30), 10**30)
OPTIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "rope": {
        "base": FINITE,
        "fraction": FINITE,
        "layout": st.sampled_from(["adjacent", "half"]),
    },
    "binary": {"bits": WHOLE, "signed": st.booleans()},
    "t5_bias": {
        "buckets": WHOLE,
        "max_distance": WHOLE,
        "bidirectional": st.booleans(),
    },
    "learned": {"length": WHOLE, "std": FINITE},
    "alibi": {"direction": st.sampled_from(["symmetric", "causal"])},
    "nope": {},
}
VARIANTS = st.sampled_from(sorted(OPTIONS)).flatmap(
    lambda name: st.builds(
        Variant, st.just(name), st.fixed_dictionaries({}, optional=OPTIONS[name])
    )
)


@given(VARIANTS)
def test_a_label_reads_as_the_variant_it_came_from(variant: Variant) -> None:
    (read,) = parse_variants(variant.label)
    defaults = {
        key: default for key, (_, default) in option_types(variant.name).items()
    }
    assert read.name == variant.name
    assert {**defaults, **read.options} == {**defaults, **variant.options}
    assert all(value != defaults[key] for key, value in read.options.items())
    (again,) = parse_variants(read.label)
    assert again == read
    assert again.label == read.label


@given(st.lists(VARIANTS, min_size=1, max_size=4))
def test_a_list_of_labels_keeps_its_order_and_drops_repeats(
    variants: list[Variant],
) -> None:
    single = [label for variant in variants for label in labels(variant.label)]
    joined = labels(",".join(variant.label for variant in variants))
    assert joined == list(dict.fromkeys(single))


@given(st.text(max_size=30))
@settings(deadline=None)  # the first call imports all schemes
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    refused = ""
    variants: list[Variant] = []
    try:
        variants = parse_variants(text)
    except ConfigError as error:
        refused = str(error)
    assert bool(variants) != bool(refused)
    assert "\n" not in refused
