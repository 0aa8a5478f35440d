"""Every scheme of this package does what every scheme must do."""

from pathlib import Path

import pytest

from posenc_compare.check import CHECKS, built_in, fresh_process
from posenc_compare.registry import SCHEMES
from posenc_compare.testing import parametrize_schemes
from posenc_compare.variants import parse_variants

EXAMPLES = Path(__file__).parent.parent / "examples"


@parametrize_schemes(",".join(built_in()))
def test_built_in_schemes(conform) -> None:
    conform()


@parametrize_schemes(
    "triangle", plugin=str(EXAMPLES / "plugin_package" / "posenc_triangle.py")
)
def test_a_scheme_of_a_package(conform) -> None:
    conform()


# Options that bring other code, and those of the comparisons of record. Raw integers
# are not among them: they overflow float16, and beside them tokens lose their digits.
VARIANTS = (
    "rope:scaling=yarn;factor=4,rope:layout=half;fraction=0.5,"
    "deberta:p2c_index=paper;reach=16,cope:scaled=true,alibi:direction=causal,"
    "randomized:scheme=rope,rope_2d:kind=mixed,"
    "dape:base=kerple_log,shape:scheme=dape,rerope:stretched=true,cape:centred=true,"
    "path:forget=true,"
    "randomized:scheme=alibi,mix:every=2"
)


@parametrize_schemes(VARIANTS)
def test_variants(conform, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share a fresh process, as the schemes with their defaults do."""
    labels = [variant.label for variant in parse_variants(VARIANTS)]
    monkeypatch.setattr(fresh_process, "built_in", lambda: labels)
    conform()


@parametrize_schemes(
    ",".join(name for name in built_in() if SCHEMES.get(name).published),
    lengths="published",
)
def test_built_in_schemes_with_published_lengths(conform) -> None:
    conform()


def test_there_are_twenty_four_checks() -> None:
    assert list(CHECKS) == [f"C{number:02}" for number in range(1, 25)]
