"""A scheme that is derived from another one takes its options, wherever that lies."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posenc_compare.errors import ConfigError, PluginError
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


def test_types_that_are_not_there_cost_the_options_alone(
    plugin: Callable[[str], Path],
) -> None:
    loud = LOUD.replace("loud: bool", "loud: 'Gone'")
    plugin(ROPE + MINE + "class Mine(Rope):\n    'Mine.'\n" + loud)
    assert Variant("posenc_test_mine").schemes == ["posenc_test_mine"]
    with pytest.raises(PluginError, match=r"^posenc_test_mine: .*'Gone'") as caught:
        parse_variants("posenc_test_mine:base=500")
    assert "\n" not in str(caught.value)
