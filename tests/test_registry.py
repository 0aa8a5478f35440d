"""Names, facts and origins: read without importing, imported when first used."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import posenc_compare.schemes
from posenc_compare.analysis.show.plots.plot import in_order
from posenc_compare.conformance import built_in
from posenc_compare.errors import ConfigError, PluginError, PosencError
from posenc_compare.registry import (
    FAMILIES,
    MEASURES,
    NAME,
    SCHEMES,
    Registry,
    add_plugin,
)
from posenc_compare.schemes import Geometry, register, scheme
from posenc_compare.schemes.nope import Nope

GROUP = "posenc_compare.tests.schemes"
FOLDER = Path(posenc_compare.schemes.__file__).parent
DECLARED = re.compile(r'^@register\(\s*"([^"]+)",\s*family="([^"]+)"', re.MULTILINE)

# Names of what is built in with their families, sorted.
BUILT_IN = dict(
    sorted(
        declared
        for path in FOLDER.glob("*.py")
        for declared in DECLARED.findall(path.read_text())
    )
)
KNOWN = {
    "alibi": "bias",
    "binary": "absolute",
    "deberta": "contextual",
    "integer": "absolute",
    "learned": "absolute",
    "nope": "none",
    "rope": "rotary",
    "rope_2d": "rotary",
    "sinusoidal": "absolute",
    "t5_bias": "bias",
}

PLUGIN = '''
from posenc_compare.schemes import Scheme, register

@register("mine", family="bias", source="Me 2026")
class Mine(Scheme):
    """Mine alone.

    More text.
    """

@register("mine.other-2", family="rotary")
class Other(Scheme):
    """The other."""
'''


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[Any]]:
    """Return a fresh registry into which `@register` files until the test ends."""
    fresh: Registry[Any] = Registry(
        kind="scheme",
        package="posenc_compare.schemes",
        decorator="register",
        group=GROUP,
        groups=SCHEMES.groups,
    )
    monkeypatch.setattr(scheme, "SCHEMES", fresh)
    modules = set(sys.modules)
    yield fresh
    for name in set(sys.modules) - modules:
        if name.startswith(("posenc_plugin_", "installed_")):
            del sys.modules[name]


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def install(folder: Path, entry_points: dict[str, str], name: str = "demo") -> None:
    """Write what pip would leave behind of a distribution with these entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    )
    lines = [f"{point} = {value}" for point, value in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))


def run(code: str, *paths: Path) -> str:
    """Run code in a fresh interpreter, with folders on its path."""
    lines = [f"import sys; sys.path[:0] = {[str(path) for path in paths]}", code]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_built_in_entries_and_their_facts(registry: Registry[Any]) -> None:
    entries = registry.entries()
    assert list(entries) == list(BUILT_IN)
    assert KNOWN.items() <= BUILT_IN.items()
    assert {name: entry.facts["family"] for name, entry in entries.items()} == BUILT_IN
    rope = entries["rope"]
    assert rope.module == rope.origin == "posenc_compare.schemes.rope"
    assert rope.summary.startswith("Rotate queries and keys by their position.")
    assert rope.facts == {
        "family": "rotary",
        "source": "Su et al. 2021, arXiv:2104.09864",
    }
    assert rope.path is not None
    assert rope.path.name == "rope.py"
    assert entries["rope_2d"].facts["axes"] == 2


def test_facts_read_from_text_are_those_of_the_class() -> None:
    for name in built_in():  # other tests may have declared more
        entry, scheme = SCHEMES.entry(name), SCHEMES.get(name)
        assert scheme.name == name
        assert entry.summary == (scheme.__doc__ or "").partition("\n")[0]
        axes = {} if scheme.facts.axes == 1 else {"axes": scheme.facts.axes}
        facts = {"family": scheme.family, "source": scheme.source, **axes}
        assert entry.facts == SCHEMES.entry(name).facts == facts


def test_listing_imports_neither_torch_nor_plugins(tmp_path: Path) -> None:
    install(tmp_path, {"mine": "installed_plugin:Mine"})
    write(tmp_path / "installed_plugin.py", PLUGIN + "\nraise SystemExit('ran')\n")
    plugin = write(
        tmp_path / "given.py",
        PLUGIN.replace("mine", "given") + "\nraise SystemExit('ran')\n",
    )
    code = f"""
from posenc_compare.registry import SCHEMES as registry, add_plugin
registry.group = {GROUP!r}
add_plugin({plugin!r}, (registry,))
names = list(registry.entries())
print(names)
print([registry.entries()[name].facts["family"] for name in ("mine", "given")])
heavy = {{"torch", "numpy", "einops", "installed_plugin", "given"}} & set(sys.modules)
print(sorted(heavy), [m for m in sys.modules if m.startswith("posenc_plugin")])
"""
    names, families, heavy = run(code, tmp_path).splitlines()
    assert names == str(sorted([*BUILT_IN, "mine", "given", "given.other-2"]))
    assert families == "['bias', 'bias']"
    assert heavy == "[] []"


def test_a_scheme_is_imported_when_first_asked_for(tmp_path: Path) -> None:
    code = """
from posenc_compare.schemes import SCHEMES
SCHEMES.entries()
print([m for m in sys.modules if m.endswith((".rope", ".alibi"))])
scheme = SCHEMES.get("rope")
print(scheme.__name__, [m for m in sys.modules if m.endswith((".rope", ".alibi"))])
"""
    assert run(code, tmp_path).splitlines() == [
        "[]",
        "Rope ['posenc_compare.schemes.rope']",
    ]


# --- names ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("rop", "rope"),
        ("ropee", "rope"),
        ("aliby", "alibi"),
        ("t5bias", "t5_bias"),
        ("sinusodial", "sinusoidal"),
        ("lerned", "learned"),
    ],
)
def test_unknown_names_suggest_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^unknown scheme '{typed}'; did you mean {meant}\b"
    ):
        SCHEMES.get(typed)


def test_a_name_like_no_other_suggests_none_and_is_cut() -> None:
    with pytest.raises(
        ConfigError, match=r"^unknown scheme 'z{80}' \(`posenc-compare list`"
    ):
        SCHEMES.entry("z" * 500)


@pytest.mark.parametrize("name", ["", "A", "rope!", "../x", "a b", "_x", "x" * 65, "é"])
def test_invalid_names_are_refused(name: str, registry: Registry[Any]) -> None:
    with pytest.raises(ConfigError, match=r"a name must be 1 to 64 of the characters"):
        registry.add(name, Nope, "module", "", {})
    assert name not in registry.entries()


@pytest.mark.parametrize("name", ["a", "0", "t5_bias", "a.b-c_d", "x" * 64])
def test_valid_names_are_accepted(name: str, registry: Registry[Any]) -> None:
    assert NAME.fullmatch(name)
    if name not in registry.entries():
        registry.add(name, Nope, "module", "One.", {"family": "none"})
        assert registry.get(name) is Nope
        assert registry.entry(name).summary == "One."


def test_unknown_family(registry: Registry[Any]) -> None:
    for family in ("relative", "nonsense"):
        with pytest.raises(
            ConfigError,
            match=rf"scheme 'mine' of .*: family must be none, absolute, rotary, bias "
            rf"or contextual, got '{family}'",
        ):
            register("mine", family=family)(Nope)
    assert "mine" not in registry.entries()


def test_a_misspelt_family_is_seen_before_anything_runs(
    tmp_path: Path, registry: Registry[Any]
) -> None:
    source = write(tmp_path / "odd.py", PLUGIN.replace('"bias"', '"rotery"'))
    with pytest.raises(ConfigError, match=r"got 'rotery'; did you mean rotary\?"):
        add_plugin(source, (registry,))
    assert "mine" not in registry.entries()


# --- duplicates -------------------------------------------------------------------


def test_a_plugin_cannot_take_a_built_in_name(
    tmp_path: Path, registry: Registry[Any]
) -> None:
    source = write(tmp_path / "thief.py", PLUGIN.replace('"mine"', '"rope"'))
    with pytest.raises(
        ConfigError,
        match=rf"scheme 'rope' is declared twice, by posenc_compare\.schemes\.rope and "
        rf"by {source}; rename one of them",
    ):
        add_plugin(source, (registry,))
    assert registry.entry("rope").module == "posenc_compare.schemes.rope"


def test_two_plugins_cannot_share_a_name(
    tmp_path: Path, registry: Registry[Any]
) -> None:
    one = write(tmp_path / "one.py", PLUGIN)
    other = write(tmp_path / "other.py", PLUGIN)
    add_plugin(one, (registry,))
    with pytest.raises(
        ConfigError, match=f"scheme 'mine' is declared twice, by {one} and by {other}"
    ):
        add_plugin(other, (registry,))


def test_an_installed_plugin_cannot_take_a_built_in_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry[Any]
) -> None:
    install(tmp_path, {"rope": "installed_thief:Mine"})
    write(tmp_path / "installed_thief.py", PLUGIN.replace('"mine"', '"rope"'))
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):  # the second look must not hide what the first one said
        with pytest.raises(
            ConfigError,
            match=r"'rope' is declared twice, by posenc_compare\.schemes\.rope and by "
            r"demo \(installed_thief:Mine\)",
        ):
            registry.entries()


def test_two_modules_cannot_file_one_name(registry: Registry[Any]) -> None:
    registry.add("mine", Nope, "here", "", {})
    with pytest.raises(ConfigError, match="declared twice, by here and by there"):
        registry.add("mine", Nope, "there", "", {})
    registry.add("mine", Nope, "here", "", {})  # a module may be loaded again


def test_a_file_cannot_declare_one_name_twice(
    tmp_path: Path, registry: Registry[Any]
) -> None:
    text = PLUGIN.replace("mine.other-2", "mine")
    source = write(tmp_path / "double.py", text)
    with pytest.raises(ConfigError, match="scheme 'mine' is declared twice"):
        add_plugin(source, (registry,))


# --- plugins ----------------------------------------------------------------------


def test_plugin_file(tmp_path: Path, registry: Registry[Any]) -> None:
    source = write(tmp_path / "my scheme.py", PLUGIN)
    assert add_plugin(source, (registry,)) == ["mine", "mine.other-2"]
    entry = registry.entry("mine")
    assert (entry.summary, entry.origin) == ("Mine alone.", source)
    assert entry.facts == {"family": "bias", "source": "Me 2026"}
    assert entry.module not in sys.modules
    scheme = registry.get("mine")
    assert scheme.__module__ == entry.module
    assert entry.module in sys.modules
    assert scheme(Geometry()).scale(4) == 0.5
    assert registry.get("mine") is scheme
    assert add_plugin(source, (registry,)) == ["mine", "mine.other-2"]  # harmless
    assert "mine" not in SCHEMES.entries()


def test_plugin_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry[Any]
) -> None:
    package = tmp_path / "installed_package"
    (package / "deep").mkdir(parents=True)
    write(package / "__init__.py", "")
    write(package / "deep" / "__init__.py", "")
    write(package / "deep" / "schemes.py", PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    names = add_plugin("installed_package.deep.schemes", (registry,))
    assert names == ["mine", "mine.other-2"]
    assert "installed_package" not in sys.modules
    assert registry.get("mine").__module__ == "installed_package.deep.schemes"


def test_installed_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry[Any]
) -> None:
    install(tmp_path, {"mine": "installed_one:Mine"})
    write(tmp_path / "installed_one.py", PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    entry = registry.entry("mine")
    assert entry.origin == "demo (installed_one:Mine)"
    assert entry.facts["family"] == "bias"
    assert registry.broken == {}
    # Only what the entry point names counts.
    assert "mine.other-2" not in registry.entries()
    assert registry.get("mine").__name__ == "Mine"


def test_broken_installed_plugins_are_told_and_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry[Any]
) -> None:
    points = {
        "gone": "installed_gone:Gone",
        "torn": "installed_torn:Torn",
        "odd": "installed_odd:Mine",
        "other": "installed_good:Mine",
        "mine": "installed_good:Mine",
    }
    install(tmp_path, points)
    write(tmp_path / "installed_torn.py", "class Torn(:\n")
    write(tmp_path / "installed_good.py", PLUGIN)
    odd = PLUGIN.replace('"bias"', '"rotery"').replace('"mine"', '"odd"')
    write(tmp_path / "installed_odd.py", odd)
    monkeypatch.syspath_prepend(tmp_path)
    assert "mine" in registry.entries()
    assert set(BUILT_IN) <= set(registry.entries())
    broken = registry.broken
    assert sorted(broken) == [
        "demo (installed_gone:Gone)",
        "demo (installed_good:Mine)",
        "demo (installed_odd:Mine)",
        "demo (installed_torn:Torn)",
    ]
    assert "got 'rotery'" in broken["demo (installed_odd:Mine)"]
    assert "is neither" in broken["demo (installed_gone:Gone)"]
    assert "SyntaxError" in broken["demo (installed_torn:Torn)"]
    assert "must declare 'other'" in broken["demo (installed_good:Mine)"]
    assert registry.get("mine").__name__ == "Mine"
    assert "gone" not in registry.entries()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("import no_such_module_here", "ModuleNotFoundError: No module named"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_plugin_that_fails_to_import_says_so_in_one_line(
    line: str, reason: str, tmp_path: Path, registry: Registry[Any]
) -> None:
    source = write(tmp_path / "bad.py", line + "\n" + PLUGIN)
    good = write(tmp_path / "good.py", PLUGIN.replace("mine", "fine"))
    add_plugin(source, (registry,))
    add_plugin(good, (registry,))
    for _ in range(2):  # a failed import leaves nothing half made
        with pytest.raises(
            PluginError,
            match=rf"^scheme 'mine': {source} must import cleanly, got {reason}",
        ) as caught:
            registry.get("mine")
        assert "\n" not in str(caught.value)
        assert not [m for m in sys.modules if m.endswith("_bad")]
    assert registry.get("fine").__name__ == "Mine"


def test_our_own_errors_pass_through_a_plugin(
    tmp_path: Path, registry: Registry[Any]
) -> None:
    raising = "\nfrom posenc_compare.errors import ConfigError\nraise ConfigError('no')"
    add_plugin(write(tmp_path / "odd.py", PLUGIN + raising), (registry,))
    with pytest.raises(ConfigError, match=r"^no$"):
        registry.get("mine")


def test_a_plugin_that_does_not_file_what_it_declares(
    tmp_path: Path, registry: Registry[Any]
) -> None:
    text = "def register(name, **facts):\n    return lambda item: item\n"
    text += PLUGIN.replace("import Scheme, register", "import Scheme")
    add_plugin(write(tmp_path / "stranger.py", text), (registry,))
    with pytest.raises(PluginError, match="scheme 'mine'"):
        registry.get("mine")


def test_a_plugin_that_exits_does_not_take_us_with_it(
    tmp_path: Path, registry: Registry[Any]
) -> None:
    text = "raise SystemExit(0)\n" + PLUGIN
    add_plugin(write(tmp_path / "quits.py", text), (registry,))
    with pytest.raises(PluginError, match="SystemExit"):
        registry.get("mine")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.py", r"missing\.py: must be readable Python source"),
        ("no_such_module_here", r"must be a \.py file or an importable module"),
        ("no_such_module_here.part", r"must be a \.py file or an importable module"),
        ("json.no_such_part", r"must be a \.py file or an importable module"),
        ("json", r"must declare a scheme with @register\('name', \.\.\.\)"),
    ],
)
def test_a_source_that_is_no_plugin(
    source: str, message: str, registry: Registry[Any]
) -> None:
    with pytest.raises(ConfigError, match=message):
        add_plugin(source, (registry,))


@pytest.mark.parametrize("text", ["class (", "\0", "x = 1\n", ""])
def test_a_file_that_is_no_plugin(
    text: str, tmp_path: Path, registry: Registry[Any]
) -> None:
    source = write(tmp_path / "text.py", text)
    with pytest.raises(PosencError, match=r"text\.py"):
        add_plugin(source, (registry,))
    assert set(registry.entries()) == set(BUILT_IN)


def test_only_literal_declarations_at_the_top_level_count(
    tmp_path: Path, registry: Registry[Any]
) -> None:
    text = '''
name = "computed"
@register(name, family="bias")
class Computed: pass
def inside():
    @register("hidden", family="bias")
    class Hidden: pass
@something("else")
class Else: pass
@schemes.register("dotted", family="bi" "as", level=3, rule=[1])
def dotted():
    """Dotted.  """
'''
    assert add_plugin(write(tmp_path / "top.py", text), (registry,)) == ["dotted"]
    entry = registry.entry("dotted")
    assert entry.facts == {"family": "bias", "level": 3}
    assert entry.summary.strip() == "Dotted."


NAMED = '''
from posenc_compare.analysis.measures.measure import *

SECONDS = Quantity("seconds", "s", "lower", "no time", repeatable=False)
ALONE, FACTS = True, {"once": True}

@register_measure("named_facts", quantities=(SECONDS,), FACT)
def named_facts(variant, probe, progress):
    """A measure of time."""
'''
DRAWN = '''
from posenc_compare.analysis.show.plots.plot import register_plot

@register_plot("goes_first", caption="First.", order=ORDER)
def goes_first(records):
    """Draw nothing."""
'''


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("exclusive=ALONE", "exclusive must be written out as bool, got ALONE"),
        ("exclusive=not False", "exclusive must be written out as bool, got not False"),
        ("version=1 + True", r"version must be written out as int, got 1 \+ True"),
        ("setting=['probe']", "setting must be written out as str, got "),
        ("**FACTS", "every fact must be written out, got FACTS"),
        ("version='2'", "version must be written out as int, got '2'"),
        ("once=1", "once must be written out as bool, got 1"),
    ],
)
def test_facts_that_are_planned_with_are_written_out(
    fact: str, said: str, tmp_path: Path, registered: Any
) -> None:
    path = write(tmp_path / "named.py", NAMED.replace("FACT)", f"{fact})"))
    with pytest.raises(ConfigError, match=rf"'named_facts' .*{said}") as caught:
        registered(path)
    assert "\n" not in str(caught.value)


def test_facts_that_are_written_out_are_those_of_the_measure(
    tmp_path: Path, registered: Any
) -> None:
    fact = "exclusive=True, once=True, version=+2"
    registered(write(tmp_path / "named.py", NAMED.replace("FACT)", f"{fact})")))
    planned = MEASURES.entry("named_facts").facts
    measure = MEASURES.get("named_facts")
    assert planned == {"exclusive": True, "once": True, "version": 2}
    assert (measure.exclusive, measure.once, measure.version) == (True, True, 2)


@pytest.mark.parametrize(("order", "place"), [("-1", 0), ("10_000", -1)])
def test_plots_stand_in_the_order_they_state(
    order: str, place: int, tmp_path: Path, registered: Any
) -> None:
    registered(write(tmp_path / "first.py", DRAWN.replace("ORDER", order)))
    assert in_order()[place].name == "goes_first"


# --- selection --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("all", lambda name: True),
        *((f, lambda name, f=f: BUILT_IN[name] == f) for f in FAMILIES),
        ("relative", lambda name: BUILT_IN[name] in ("rotary", "bias", "contextual")),
        ("rope", lambda name: name == "rope"),
        ("*", lambda name: True),
        ("?o?e", lambda name: (len(name), name[1::2]) == (4, "oe")),
        ("[ab]*", lambda name: name[0] in "ab"),
        ("*i*a*", lambda name: "a" in name.partition("i")[2]),
    ],
)
def test_select(
    pattern: str, wanted: Callable[[str], bool], registry: Registry[Any]
) -> None:
    names = [name for name in BUILT_IN if wanted(name)]
    assert names
    assert registry.select(pattern) == names


def test_a_family_may_be_empty(registry: Registry[Any]) -> None:
    registry.groups |= {"lone": ("family", ("nobody's",))}
    assert registry.select("lone") == []


def test_a_plugin_joins_its_family(tmp_path: Path, registry: Registry[Any]) -> None:
    add_plugin(write(tmp_path / "mine.py", PLUGIN), (registry,))
    own = [name for name, family in BUILT_IN.items() if family == "bias"]
    assert registry.select("bias") == sorted([*own, "mine"])
    assert registry.select("mine*") == ["mine", "mine.other-2"]


def test_select_all(registry: Registry[Any]) -> None:
    bias = [name for name, family in BUILT_IN.items() if family == "bias"]
    rest = [name for name in BUILT_IN if name[0] == "r" and name not in ["rope", *bias]]
    names = registry.select_all(" rope, bias ,rope,, r*")
    assert names == ["rope", *bias, *rest]
    for patterns in ("", " , "):
        with pytest.raises(ConfigError, match="no scheme named; try `all`"):
            registry.select_all(patterns)


def test_measures_are_trained_or_untrained() -> None:
    trained, untrained = MEASURES.select("trained"), MEASURES.select("untrained")
    assert "extrapolation" in trained
    extra = [n for n, entry in MEASURES.entries().items() if entry.facts.get("extra")]
    assert "inside" in extra  # which no group has
    assert sorted([*trained, *untrained, *extra]) == list(MEASURES.entries())
    with pytest.raises(ConfigError, match="unknown measure 'rope'"):
        MEASURES.get("rope")


def test_select_nothing(registry: Registry[Any]) -> None:
    with pytest.raises(ConfigError, match=r"no scheme matches 'zz\*'"):
        registry.select("zz*")
    with pytest.raises(ConfigError, match=r"unknown scheme 'rotery'"):
        registry.select("rotery")


def test_the_global_registry_was_not_touched() -> None:
    assert set(SCHEMES.entries()) >= set(BUILT_IN)
    assert not {"mine", "fine", "given"} & set(SCHEMES.entries())
