"""A scheme that is derived from another one takes its options, wherever that lies."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posenc_compare.errors import ConfigError, PluginError
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import Geometry, Variant, parse_variants
from posenc_compare.variants import option_types

HEAD = "from posenc_compare.schemes import Scheme, register\n"
MINE = "@register('posenc_test_mine', family='rotary')\n"
ROPE = "from posenc_compare.schemes.rope import Rope\n"
LOUD = (
    "    def __init__(self, geometry, *, loud: bool = False, **options):\n"
    "        super().__init__(geometry, **options)\n        self.loud = loud\n"
)
FORMS = {
    "a class by its name": ROPE + MINE + "class Mine(Rope): 'Mine.'\n",
    "one between": (
        ROPE + "class Between(Rope): 'Between.'\n" + MINE + "class M(Between): 'M.'\n"
    ),
    "one beside it": (
        ROPE + "class Mixed: pass\n" + MINE + "class Mine(Mixed, Rope): 'Mine.'\n"
    ),
    "a scheme beside it": (
        ROPE + "class Beside(Scheme): 'B.'\n" + MINE + "class M(Beside, Rope): 'M.'\n"
    ),
}


@pytest.fixture
def plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: Any
) -> Callable[[str], Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "posenc_test_parent", raising=False)

    def write(text: str) -> Path:
        path = tmp_path / "mine.py"
        path.write_text(HEAD + text)
        registered(path)
        return path

    return write


@pytest.mark.parametrize("form", FORMS)
def test_all_options_of_the_parent(form: str, plugin: Callable[[str], Path]) -> None:
    plugin(FORMS[form])
    assert option_types("posenc_test_mine") == option_types("rope")
    (variant,) = parse_variants("posenc_test_mine:base=500;layout=half")
    assert variant.options == {"base": 500.0, "layout": "half"}
    assert variant.build(Geometry()).base == 500.0


def test_of_a_parent_in_another_file_of_the_plugin(
    tmp_path: Path, plugin: Callable[[str], Path]
) -> None:
    (tmp_path / "posenc_test_parent.py").write_text(
        ROPE + "class Parent(Rope): 'Parent.'\n"
    )
    plugin("from posenc_test_parent import Parent\n" + MINE + "class M(Parent): 'M.'\n")
    assert option_types("posenc_test_mine") == option_types("rope")


def test_own_options_join_those_that_are_passed_on(
    plugin: Callable[[str], Path],
) -> None:
    plugin(ROPE + MINE + "class Mine(Rope):\n    'Mine.'\n" + LOUD)
    assert option_types("posenc_test_mine") == {
        **option_types("rope"),
        "loud": (bool, False),
    }
    (variant,) = parse_variants("posenc_test_mine:base=500;loud=yes")
    built = variant.build(Geometry())
    assert (built.base, built.loud) == (500.0, True)


def test_a_constructor_that_passes_nothing_on_takes_its_own_alone(
    plugin: Callable[[str], Path],
) -> None:
    plugin(ROPE + MINE + "class Mine(Rope):\n" + LOUD.replace(", **options", ""))
    assert option_types("posenc_test_mine") == {"loud": (bool, False)}
    with pytest.raises(ConfigError, match="no option 'base'"):
        parse_variants("posenc_test_mine:base=500")


CHOSEN = (
    ROPE
    + MINE
    + "class Mine(Rope):\n    'Mine.'\n"
    + "    def __init__(self, geometry, **options):\n"
    + "        super().__init__(geometry, base=500.0, **options)\n"
)


def test_an_option_that_is_passed_on_by_name_and_again_is_refused(
    plugin: Callable[[str], Path],
) -> None:
    plugin(CHOSEN)
    for options in ({}, {"base": 3.0}):
        with pytest.raises(TypeError, match="multiple values"):
            Variant("posenc_test_mine", options).build(Geometry())


def test_another_default_of_an_option_of_the_parent_is_written_as_an_option(
    plugin: Callable[[str], Path],
) -> None:
    own = CHOSEN.replace("geometry, **", "geometry, *, base: float = 500.0, **")
    plugin(own.replace("base=500.0", "base=base"))
    assert option_types("posenc_test_mine").keys() == option_types("rope").keys()
    (variant,) = parse_variants("posenc_test_mine:base=10000")
    assert variant.build(Geometry()).base == 10_000


def test_a_default_that_is_changed_on_the_way_is_that_of_the_option(
    plugin: Callable[[str], Path],
) -> None:
    line = "options.setdefault('base', 500.0)\n        super"
    plugin(CHOSEN.replace("base=500.0, ", "").replace("super", line))
    assert Variant("posenc_test_mine").build(Geometry()).base == 10_000


def test_of_several_parents_python_decides(plugin: Callable[[str], Path]) -> None:
    # The order is Mine, Left, Right, Rope: Left has no constructor, Right has one.
    plugin(
        ROPE
        + "class Left(Rope): pass\nclass Right(Rope):\n"
        + LOUD
        + MINE
        + "class Mine(Left, Right): 'Mine.'\n"
    )
    assert option_types("posenc_test_mine")["loud"] == (bool, False)
    assert option_types("posenc_test_mine")["base"] == (float, 10_000.0)


def test_types_may_stand_in_quotation_marks(plugin: Callable[[str], Path]) -> None:
    loud = LOUD.replace("loud: bool", "loud: 'bool'")
    plugin(ROPE + MINE + "class Mine(Rope):\n    'Mine.'\n" + loud)
    assert option_types("posenc_test_mine")["loud"] == (bool, False)


def test_types_that_are_not_there_cost_the_options_alone(
    plugin: Callable[[str], Path],
) -> None:
    loud = LOUD.replace("loud: bool", "loud: 'Gone'")
    plugin(ROPE + MINE + "class Mine(Rope):\n    'Mine.'\n" + loud)
    assert Variant("posenc_test_mine").schemes == ["posenc_test_mine"]
    with pytest.raises(PluginError, match=r"^posenc_test_mine: .*'Gone'") as caught:
        parse_variants("posenc_test_mine:base=500")
    assert "\n" not in str(caught.value)


def test_facts_stay_the_own_ones(plugin: Callable[[str], Path]) -> None:
    plugin(ROPE + MINE + "class Mine(Rope): 'Mine alone.'\n")
    entry = SCHEMES.entry("posenc_test_mine")
    facts = {"family": "rotary", "source": ""}
    assert (entry.summary, entry.facts) == ("Mine alone.", facts)
