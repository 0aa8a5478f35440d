"""Schemes with options, as typed on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_compare.errors import ConfigError, PluginError
from posenc_compare.measures.trial import misspelt, try_options
from posenc_compare.records.cells import Cell, cell_of
from posenc_compare.records.record import Spec, parse
from posenc_compare.run.comparison import plan_comparison
from posenc_compare.schemes import SCHEMES, Geometry, Variant, create, parse_variants
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.training import Training
from posenc_compare.variants import option_types


def labels(text: str) -> list[str]:
    return [variant.label for variant in parse_variants(text)]


# --- reading ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" rope , alibi ,, ", ["rope", "alibi"]),
        ("rope: base = 5e5 ; layout = half ", ["rope:base=500000.0;layout=half"]),
        ("rope:layout=half;base=100", ["rope:base=100.0;layout=half"]),
        ("rope:fraction=-0.0", ["rope:fraction=0.0"]),
        ("rope:", ["rope"]),
        ("rope:;", ["rope"]),
        ("rope,rope,rope:base=10000", ["rope"]),
        ("binary:bits=4;signed=yes", ["binary:bits=4;signed=true"]),
        *((f"binary:signed={t}", ["binary:signed=true"]) for t in ("TRUE", "1")),
        ("integer:normalised=No", ["integer:normalised=false"]),
        ("binary:bits=+7", ["binary:bits=7"]),
        ("binary:bits=-7", ["binary:bits=-7"]),
        ("binary:bits=1_000", ["binary:bits=1000"]),
        ("rope:base=1_000", ["rope:base=1000.0"]),
        ("rope:fraction=.5", ["rope:fraction=0.5"]),
        ("alibi:direction=causal", ["alibi:direction=causal"]),
        ("alibi,rope,rope:base=3,rope", ["alibi", "rope", "rope:base=3.0"]),
        ("nope,none,n?pe", ["nope"]),
        ("rop?:base=7", ["rope:base=7.0"]),
        ("[r]ope:base=7,rope", ["rope:base=7.0", "rope"]),
    ],
)
def test_labels(text: str, expected: list[str]) -> None:
    assert labels(text) == expected


def test_a_family_or_a_glob_is_each_of_its_schemes() -> None:
    assert labels("all") == list(SCHEMES.entries())
    assert {"alibi", "t5_bias"} <= set(labels("bias"))
    assert labels("bias") == SCHEMES.select("bias")
    others = [name for name in SCHEMES.select("relative") if name != "rope"]
    assert labels("rope,relative") == ["rope", *others]
    waves = SCHEMES.select("sinusoidal*")
    assert len(waves) > 1
    assert labels("sinusoidal*:base=7") == [f"{name}:base=7.0" for name in waves]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" , ", "no scheme named; `all` would work"),
        ("roope", "unknown scheme 'roope'; did you mean rope"),
        ("own.py", "must be a name, got the file 'own.py'; with `--plugin own.py`"),
        ("rope:bas=3", r"rope: no option 'bas'; it takes alpha, attention, base, "),
        ("t5_bias:zzz=3", "no option 'zzz'; it takes bidirectional, buckets, max_dis"),
        ("rope;base=3", "must follow a colon .* got 'rope;base=3'"),
        ("rope:base=3,layout=half", "be separated by ;, .* got 'layout=half'"),
        ("nope:base=3", "nope: no option 'base'; it takes none"),
        ("bias:direction=causal", r"^(?!alibi:)\w+: no option 'direction'"),
        ("rope:base", "rope: an option must read key=value, got 'base'"),
        ("rope:layout=full", "rope: layout must be adjacent or half, got 'full'"),
        ("binary:bits=3.5", r"binary: bits must be a whole number, got '3\.5'"),
        *(
            (f"binary:bits={text}", f"binary: bits must be a whole number, got '{text}")
            for text in ("true", "1e3", "7.0", "0x10", "٣", "", "1__0")
        ),
        *(
            (f"rope:base={text}", f"rope: base must be a finite number, got '{text}'")
            for text in ("0x10", "٣", "big", "nan", "inf", "")
        ),
        ("binary:signed=2", "binary: signed must be true or false, got '2'"),
        ("rope:geometry=1", "rope: no option 'geometry'"),
        ("rope:base=1e400", "rope: base must be a finite number, got 'inf'"),
        ("rope:base=1;base=2", "rope: .*base.*twice"),
        (
            "randomized:scheme=rope:base=5",
            r"^randomized: scheme must have brackets around options, got "
            r"'rope:base=5'; scheme=\(rope:base=5\) would work$",
        ),
        ("randomized:scheme=roep", "^randomized: scheme: unknown scheme 'roep'; did y"),
        ("randomized:scheme=(rope:bas=5)", "^randomized: scheme: rope: no option 'b"),
        ("randomized:scheme=(mix:first=(rope:base=x))", "scheme: mix: first: rope: "),
        ("randomized:scheme=rotary", "^randomized: scheme: unknown scheme 'rotary'"),
        ("randomized:scheme=", "^randomized: scheme must be a scheme, got ''$"),
        ("randomized:scheme=(rope,alibi)", "scheme: unknown scheme 'rope,alibi'"),
        ("randomized:scheme=(rope", "^every bracket must be closed, got 'random"),
        ("(rope)", r"^unknown scheme '\(rope\)'"),
        (f"{40 * 'mix:first=('}{40 * ')'}", "^brackets must be at most 8 deep, got"),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_variants(text)
    assert "\n" not in str(caught.value)


def test_long_nonsense_is_cut_in_the_message() -> None:
    long = "x" * 999
    number = f"binary:bits={'9' * 5000}"
    for text in (long, f"rope:{long}", f"rope:base={long}", number):
        with pytest.raises(ConfigError, match=r"(x{80}|9{80})'") as caught:
            parse_variants(text)
        assert len(str(caught.value)) < 200


# --- building ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rope", {"base": "100"}, "rope: base must be a finite number, got '100'"),
        ("rope", {"base": True}, "rope: base must be a finite number, got 'True'"),
        ("rope", {"base": None}, "rope: base must be a finite number, got 'None'"),
        ("rope", {"base": float("nan")}, "rope: base must be a finite number"),
        ("rope", {"base": 10**400}, "rope: base must be a finite number"),
        ("rope", {"layout": ["half"]}, "rope: layout must be adjacent or half"),
        ("binary", {"bits": 4.0}, r"binary: bits must be a whole number, got '4\.0'"),
        ("binary", {"bits": True}, "binary: bits must be a whole number, got 'True'"),
        ("binary", {"signed": 1}, "binary: signed must be true or false, got 1"),
        ("rope", {"Base": 1.0}, r"rope: no option 'Base'; it takes alpha, attention, "),
    ],
)
def test_build_refuses(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Variant(name, options).build(Geometry())


def test_create_takes_a_label_and_options_before_those_of_the_label() -> None:
    built = create("rope:layout=half;base=5", options={"base": 7.0}, heads=4)
    assert (built.layout, built.base) == ("half", 7.0)
    assert repr(built) == "Rope(rope:base=7.0;layout=half)"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"width": 3}, "create: sizes must be among model_dim.*, got width; opt"),
        ({"heads": 0}, "geometry: heads must be a whole number of at least 1, got 0"),
        ({"layers": "2"}, "geometry: layers must be a whole number of at least 1"),
        ({"heads": "4"}, "geometry: heads must be a whole number of at least 1, got "),
        ({"head_dim": 2.5}, r"geometry: head_dim must be .*, got 2\.5"),
        ({"length": 0}, "geometry: length must be .*, got 0"),
        ({"model_dim": 5}, "geometry: model_dim must be at least heads, got 5 and 8"),
    ],
)
def test_create_refuses_sizes(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create("nope", **sizes)


# --- schemes of plugins ----------------------------------------------------------

HEAD = (
    "from posenc_compare.schemes import Variant, register\n"
    "from posenc_compare.schemes.rope import Rope\n"
    "@register('posenc_test_mine', family='rotary')\n"
)
LOUD = (
    "    def __init__(self, geometry, *, loud: bool = False):\n"
    "        super().__init__(geometry)\n        self.loud = loud\n"
)


@pytest.fixture
def plugin(tmp_path: Path, registered: Any) -> Callable[[str], None]:
    """Return a function that declares a scheme derived from `rope`."""

    def declare(body: str) -> None:
        path = tmp_path / "mine.py"
        path.write_text(f"{HEAD}class Mine(Rope):\n    'Mine.'\n{body}")
        registered(path)

    return declare


def test_a_scheme_may_have_a_label_of_its_own(plugin: Callable[[str], None]) -> None:
    plugin(
        "    def __init__(self, geometry, *, label: int = 1):\n"
        "        super().__init__(geometry)\n"
        "        self.label = label\n"
    )
    assert create("posenc_test_mine:label=3").label == 3


def test_all_options_of_the_parent(plugin: Callable[[str], None]) -> None:
    plugin("")
    assert option_types("posenc_test_mine") == option_types("rope")
    (variant,) = parse_variants("posenc_test_mine:base=500;layout=half")
    assert variant.options == {"base": 500.0, "layout": "half"}
    assert variant.build(Geometry()).base == 500.0


def test_a_constructor_of_its_own_takes_its_own_options_alone(
    plugin: Callable[[str], None],
) -> None:
    plugin(LOUD)
    assert option_types("posenc_test_mine") == {"loud": (bool, False)}
    with pytest.raises(ConfigError, match="no option 'base'"):
        parse_variants("posenc_test_mine:base=500")


AROUND = """
    def __init__(self, geometry, *, scheme: Variant = Variant("rope", {"base": 500})):
        super().__init__(geometry)
        self.inner = scheme.build(geometry)
"""


def test_a_default_may_have_options(plugin: Callable[[str], None]) -> None:
    plugin(AROUND)
    name = "posenc_test_mine"
    assert option_types(name) == {"scheme": (Variant, "rope:base=500.0")}
    assert Variant(name).schemes == [name, "rope"]
    assert parse_variants(f"{name}:scheme=(rope:base=500)") == [Variant(name)]
    assert Variant(name).build(Geometry()).inner.base == 500.0


def test_types_that_are_not_there_cost_the_options_alone(
    plugin: Callable[[str], None],
) -> None:
    plugin(LOUD.replace("loud: bool", "loud: 'Gone'"))
    assert Variant("posenc_test_mine").schemes == ["posenc_test_mine"]
    with pytest.raises(PluginError, match=r"^posenc_test_mine: .*'Gone'") as caught:
        parse_variants("posenc_test_mine:base=500")
    assert "\n" not in str(caught.value)


# --- label round trip -------------------------------------------------------------

FINITE = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(10**30), 10**30)
KINDS = {int: WHOLE, float: FINITE, bool: st.booleans()}


def options_of(name: str) -> st.SearchStrategy[Any]:
    """Draw options of a scheme, each there or not."""
    drawn = {
        key: KINDS[kind] if kind in KINDS else st.sampled_from(get_args(kind))
        for key, (kind, _) in option_types(name).items()
    }
    return st.builds(Variant, st.just(name), st.fixed_dictionaries({}, optional=drawn))


# None has an option of text, or a scheme inside.
PLAIN = ["rope_dinov3", "binary", "t5_bias", "learned", "alibi", "nope"]
VARIANTS = st.sampled_from(PLAIN).flatmap(options_of)


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


# --- what is said before anything is computed ---------------------------------------

UNTRUSTED = '''
"""Untrusted schemes."""
from posenc_compare.schemes import Scheme, register

@register("trial_wrong", family="bias")
class Wrong(Scheme):
    "Misspell a hook."
    def offset_bais(self, offsets):
        raise SystemExit("code of a plugin must not run here")

@register("trial_right", family="bias")
class Right(Scheme):
    "Name a helper like a hook."
    def offset_bias(self, offsets):
        return self.offset_bais(offsets)
    def offset_bais(self, offsets):
        return -offsets.abs()[None].float()

@register("trial_heir", family="bias")
class Heir(Right):
    "Take the hook of another."
    def offset_biass(self, offsets):
        return None
'''
SETTINGS = [ProbeSetting(), Training()]


def test_options_that_can_be_used_are_tried_and_no_random_number_is_drawn() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    try_options(parse_variants("rope:base=500,learned,rope_2d:kind=mixed"), SETTINGS)
    assert torch.equal(torch.rand(1), wanted)


def test_sizes_that_a_scheme_refuses_are_left_to_its_cells() -> None:
    narrow = ProbeSetting(width=6, heads=2)  # 3 channels a head are no pairs
    try_options(parse_variants("rope:base=500"), [narrow])
    with pytest.raises(ConfigError):
        try_options(parse_variants("rope:base=-500"), SETTINGS)
    quarter = parse_variants("rope:fraction=0.25")
    small = ProbeSetting(width=8, heads=2)  # a quarter of 4 channels is no pair
    try_options(quarter, [small, ProbeSetting()])
    with pytest.raises(ConfigError, match="fraction"):
        try_options(quarter, [small])


def test_a_misspelt_hook_is_named_and_its_code_does_not_run(
    tmp_path: Path, forgetful: None
) -> None:
    path = tmp_path / "strange.py"
    path.write_text(UNTRUSTED)
    planned = plan_comparison(
        "trial_wrong,trial_right,trial_heir,nope", "uniqueness", plugins=[path]
    )
    assert planned.remarks == (
        "trial_wrong overrides no hook, and so does nothing; `offset_bais` looks "
        "like `offset_bias`",
    )
    assert not list(misspelt(parse_variants("nope,alibi")))
