"""Every scheme of this package does what every scheme must do."""

from pathlib import Path

from posenc_compare.check import CHECKS, built_in
from posenc_compare.registry import SCHEMES
from posenc_compare.testing import parametrize_schemes

EXAMPLES = Path(__file__).parent.parent / "examples"


@parametrize_schemes(",".join(built_in()))
def test_built_in_schemes(conform) -> None:
    conform()


@parametrize_schemes("log_bias", plugin=str(EXAMPLES / "my_scheme.py"))
def test_a_scheme_of_twenty_lines(conform) -> None:
    conform()


@parametrize_schemes(
    "triangle", plugin=str(EXAMPLES / "plugin_package" / "posenc_triangle.py")
)
def test_a_scheme_of_a_package(conform) -> None:
    conform()


@parametrize_schemes(
    "rope:scaling=yarn;factor=4,rope:layout=half;fraction=0.5,"
    "deberta:p2c_index=paper,cope:scaled=true,alibi:direction=causal,"
    "randomized:scheme=rope,dape:base=t5_bias,rope_2d:kind=mixed,"
    "dape:base=kerple_log,shape:scheme=dape,rerope:stretched=true,cape:centred=true"
)
def test_variants_with_options(conform) -> None:
    conform()


# Of the comparisons of record, beside the schemes with their defaults. Raw integers
# are not among them: they overflow float16, and beside them tokens lose their digits.
@parametrize_schemes(
    "rope:base=128,rope:fraction=0.25,path:forget=true,fox:bias=5,"
    "randomized:scheme=alibi,deberta:reach=16,mix:every=2"
)
def test_variants_of_record(conform) -> None:
    conform()


@parametrize_schemes(
    ",".join(name for name in built_in() if SCHEMES.get(name).published),
    lengths="published",
)
def test_built_in_schemes_with_published_lengths(conform) -> None:
    conform()


def test_there_are_twenty_four_checks() -> None:
    assert list(CHECKS) == [f"C{number:02}" for number in range(1, 25)]
