"""Names, facts and origins: filed by decorators, imported when they are needed."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import posenc_compare.schemes
from posenc_compare.errors import ConfigError, PluginError
from posenc_compare.registry import (
    FAMILIES,
    MEASURES,
    REGISTRIES,
    SCHEMES,
    Registry,
    add_plugin,
)
from posenc_compare.schemes import Geometry, Scheme, register
from posenc_compare.show.plots.plot import in_order

GROUP = "posenc_compare.tests.schemes"
FOLDER = Path(posenc_compare.schemes.__file__).parent
NO_SCHEMES = {"__init__", "contract", "scheme", "wrapper"}
BUILT_IN = {entry.name: entry.facts["family"] for entry in SCHEMES.built_in()}
COMPARED = {"identities", "oracles", "checked"}

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


@pytest.mark.parametrize("kind", REGISTRIES, ids=lambda registry: registry.kind)
def test_what_is_listed_from_source_is_what_is_registered(kind: Registry) -> None:
    shown = {
        n: (facts.get("source"), what) for n, (facts, what) in kind.listed().items()
    }
    entries = kind.built_in()
    assert {e.name: (e.facts.get("source"), e.summary) for e in entries} == {
        e.name: shown[e.name] for e in entries
    }
    assert {n: facts.get("family") for n, (facts, _) in SCHEMES.listed().items()} == {
        e.name: e.facts["family"] for e in SCHEMES.entries().values()
    }


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, forgetful: None) -> Iterator[Registry]:
    """Return the registry of schemes, with entry points of these tests alone.

    What other tests have registered in this process is hidden.
    """
    own = {n: e for n, e in SCHEMES.entries().items() if n in BUILT_IN}
    monkeypatch.setattr(SCHEMES, "_known", own)
    monkeypatch.setattr(SCHEMES, "group", GROUP)
    monkeypatch.setattr(SCHEMES, "broken", {})
    monkeypatch.delitem(vars(SCHEMES), "_points", raising=False)
    yield SCHEMES
    for name in [name for name in sys.modules if name.startswith("installed_")]:
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


def test_built_in_entries_and_their_facts() -> None:
    entries = SCHEMES.built_in()
    files = {path.stem for path in FOLDER.glob("*.py")} - NO_SCHEMES
    assert [entry.name for entry in entries] == sorted(files)
    for entry in entries:
        scheme = SCHEMES.get(entry.name)
        axes = {} if scheme.facts.axes == 1 else {"axes": scheme.facts.axes}
        facts = {"family": scheme.family, "source": scheme.source, **axes}
        assert {k: v for k, v in entry.facts.items() if k not in COMPARED} == facts
        assert scheme.name == entry.name
        assert entry.module == entry.origin == scheme.__module__
        assert entry.summary == (scheme.__doc__ or "").partition("\n")[0]
        assert entry.path == FOLDER / f"{entry.name}.py"
    known = {"alibi": "bias", "cope": "contextual", "nope": "none", "rope": "rotary"}
    assert known.items() <= BUILT_IN.items()
    assert "Su et al. 2021" in SCHEMES.entry("rope").facts["source"]
    assert SCHEMES.entry("rope_2d").facts["axes"] == 2


# --- duplicates -------------------------------------------------------------------


def test_a_name_is_of_one_plugin(tmp_path: Path, registry: Registry) -> None:
    one = write(tmp_path / "one.py", PLUGIN)
    add_plugin(one)
    built_in = "posenc_compare.schemes.rope"
    for name, owner in (("mine", one), ("rope", built_in)):
        other = write(tmp_path / f"{name}.py", PLUGIN.replace('"mine"', f'"{name}"'))
        said = f"scheme '{name}' is declared twice, by {owner} and by {other}; rename"
        with pytest.raises(ConfigError, match=re.escape(said)):
            add_plugin(other)
        assert registry.entry(name).origin == owner
    twice = PLUGIN.replace("mine.other-2", "twice").replace('"mine"', '"twice"')
    with pytest.raises(ConfigError, match="scheme 'twice' is declared twice"):
        add_plugin(write(tmp_path / "double.py", twice))
    assert "twice" not in registry


@pytest.mark.parametrize("taken", ["rope", "mine"])
def test_an_installed_plugin_cannot_take_a_name(
    taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry
) -> None:
    """Neither a built-in one, nor that of another distribution."""
    owner = "posenc_compare.schemes.rope"
    if taken == "mine":
        install(tmp_path, {"mine": "installed_one:Mine"}, "first")
        write(tmp_path / "installed_one.py", PLUGIN)
        owner = "first (installed_one:Mine)"
    install(tmp_path, {taken: "installed_thief:Mine"})
    thief = PLUGIN.replace('"mine"', f'"{taken}"').replace("mine.other", "thief")
    write(tmp_path / "installed_thief.py", thief)
    monkeypatch.syspath_prepend(tmp_path)
    asked: list[Callable[[], object]] = [
        registry.listed,
        registry.entries,
        registry.entries,  # the second look must not hide what the first one said
        lambda: registry.entry(taken),
    ]
    for ask in asked:
        with pytest.raises(ConfigError, match="declared twice") as caught:
            ask()
        assert owner in str(caught.value)
        assert "demo (installed_thief:Mine)" in str(caught.value)


def test_two_modules_cannot_file_one_name(registry: Registry) -> None:
    def declare(module: str, name: str = "Mine") -> None:
        made = type(name, (Scheme,), {"__module__": module, "__doc__": "Mine."})
        register("mine", family="bias")(made)

    declare("__main__")
    declare("__main__", "Renamed")  # of a notebook
    declare("here")
    declare("here")  # a module may be loaded again
    for module, name in (("there", "Mine"), ("here", "Other")):
        message = f"declared twice, by here and by {module}"
        with pytest.raises(ConfigError, match=message):
            declare(module, name)


# --- plugins ----------------------------------------------------------------------


def test_plugin_file(tmp_path: Path, registry: Registry) -> None:
    source = write(tmp_path / "my scheme.py", PLUGIN)
    assert add_plugin(source) == ["mine", "mine.other-2"]
    entry = registry.entry("mine")
    assert (entry.summary, entry.origin) == ("Mine alone.", source)
    assert entry.facts == {"family": "bias", "source": "Me 2026"}
    assert entry.path == tmp_path / "my scheme.py"
    scheme = registry.get("mine")
    assert scheme.__module__ == entry.module
    assert scheme(Geometry()).scale(4) == 0.5
    assert add_plugin(source) == ["mine", "mine.other-2"]
    assert registry.get("mine") is scheme  # it was not run again
    write(tmp_path / "my scheme.py", PLUGIN.replace("mine.other-2", "mine.3"))
    assert add_plugin(source) == ["mine", "mine.3"]
    assert registry.get("mine") is not scheme
    assert "mine.other-2" not in registry
    assert not (tmp_path / "__pycache__").exists()


def test_plugin_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry
) -> None:
    package = tmp_path / "installed_package"
    (package / "deep").mkdir(parents=True)
    write(package / "__init__.py", "")
    write(package / "deep" / "__init__.py", "from . import schemes")
    write(package / "deep" / "schemes.py", PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("installed_package.deep", "installed_package.deep.schemes"):
        assert add_plugin(module) == ["mine", "mine.other-2"]
    assert registry.get("mine").__module__ == "installed_package.deep.schemes"
    assert registry.entry("mine").origin == "installed_package.deep"


def test_broken_installed_plugins_are_told_and_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry
) -> None:
    points = {
        "gone": "installed_gone:Gone",
        "torn": "installed_torn:Torn",
        "odd": "installed_odd:Mine",
        "quits": "installed_quits:Mine",
        "other": "installed_good:Mine",
        "mine": "installed_good:Mine",
    }
    install(tmp_path, points)
    write(tmp_path / "installed_torn.py", "class Torn(:\n")
    write(tmp_path / "installed_quits.py", "raise SystemExit(3)\n")
    write(tmp_path / "installed_good.py", PLUGIN)
    odd = PLUGIN.replace('"bias"', '"rotery"').replace('"mine"', '"odd"')
    write(tmp_path / "installed_odd.py", odd)
    monkeypatch.syspath_prepend(tmp_path)
    assert "mine" in registry.entries()
    assert set(BUILT_IN) <= set(registry.entries())
    broken = registry.broken
    assert len(broken) == 5
    said = "family must be none, absolute, rotary, bias or contextual, got 'rotery'"
    assert said in broken["demo (installed_odd:Mine)"]
    missing = "must import cleanly, got ModuleNotFoundError: No module named"
    assert broken["demo (installed_gone:Gone)"].startswith(missing)
    assert "SyntaxError" in broken["demo (installed_torn:Torn)"]
    assert "SystemExit at line 1: 3" in broken["demo (installed_quits:Mine)"]
    assert "must declare 'other'" in broken["demo (installed_good:Mine)"]
    assert registry.get("mine").__name__ == "Mine"
    assert registry.entry("mine").origin == "demo (installed_good:Mine)"
    with pytest.raises(ConfigError, match=r"'gone' of demo .* cannot be used: must i"):
        registry.entry("gone")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "import no_such_module_here",
            "ModuleNotFoundError at line .*: No module named '.*'$",
        ),
        (
            "import good",
            r"ModuleNotFoundError .*; the code of good.py in the plugin, or in an",
        ),
        ("__import__('a/b\\0')", r"ModuleNotFoundError at line \d+: No module"),
        ("1 / 0", r"ZeroDivisionError at line \d+: division by zero"),
        ("raise SystemExit(0)", r"SystemExit at line \d+: 0"),
        ("raise type('Own', (BaseException,), {})('mine')", r"Own at line \d+: mine"),
    ],
)
def test_a_plugin_that_fails_to_import_says_so_in_one_line(
    line: str, reason: str, tmp_path: Path, registry: Registry
) -> None:
    source = write(tmp_path / "bad.py", f"{PLUGIN}\n{line}\n")
    good = write(tmp_path / "good.py", PLUGIN.replace("mine", "fine"))
    for _ in range(2):  # a failed import leaves nothing half made
        with pytest.raises(
            PluginError, match=rf"^plugin {source}: must import cleanly, got {reason}"
        ) as caught:
            add_plugin(source)
        assert "\n" not in str(caught.value)
        assert "mine" not in registry
    add_plugin(good)
    assert registry.get("fine").__name__ == "Mine"
    write(tmp_path / "bad.py", PLUGIN)
    assert add_plugin(source) == ["mine", "mine.other-2"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.py", r"missing\.py: must be readable Python source"),
        ("no_such_module_here", r"must be a \.py file or an importable module"),
        ("json.no_such_part", r"must be a \.py file or an importable module"),
        (".", r"must be a \.py file or an importable module"),
        ("", r"must be a \.py file or an importable module"),
        ("nul\0.py", "must be readable Python source"),
        ("json", r"must declare a scheme or a measure or a task or a plot, and decl"),
    ],
)
def test_a_source_that_is_no_plugin(source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        add_plugin(source)


DRAWN = '''
from posenc_compare.show.plots.plot import register_plot

@register_plot("goes_first", caption="First.", order=ORDER)
def goes_first(records):
    """Draw nothing."""
'''


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
    pattern: str, wanted: Callable[[str], bool], registry: Registry
) -> None:
    names = [name for name in BUILT_IN if wanted(name)]
    assert names
    assert registry.select(pattern) == names


def test_measures_are_trained_or_untrained() -> None:
    trained, untrained = MEASURES.select("trained"), MEASURES.select("untrained")
    assert "extrapolation" in trained
    extra = [n for n, entry in MEASURES.entries().items() if entry.facts.get("extra")]
    assert "inside" in extra  # which no group has
    assert sorted([*trained, *untrained, *extra]) == list(MEASURES.entries())
    with pytest.raises(ConfigError, match="unknown measure 'rope'"):
        MEASURES.get("rope")
