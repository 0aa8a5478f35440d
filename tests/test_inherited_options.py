"""A scheme that is derived from another one takes its options."""

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
    "    def __init__(self, geometry, *, loud: bool = False):\n"
    "        super().__init__(geometry)\n        self.loud = loud\n"
)


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


def test_all_options_of_the_parent(plugin: Callable[[str], Path]) -> None:
    plugin(ROPE + MINE + "class Mine(Rope): 'Mine.'\n")
    assert option_types("posenc_test_mine") == option_types("rope")
    (variant,) = parse_variants("posenc_test_mine:base=500;layout=half")
    assert variant.options == {"base": 500.0, "layout": "half"}
    assert variant.build(Geometry()).base == 500.0


def test_a_constructor_of_its_own_takes_its_own_options_alone(
    plugin: Callable[[str], Path],
) -> None:
    plugin(ROPE + MINE + "class Mine(Rope):\n" + LOUD)
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
