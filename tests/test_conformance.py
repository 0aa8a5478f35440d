"""Every scheme of this package does what every scheme must do."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from posenc_compare.check import CHECKS, Subject, built_in, run_check
from posenc_compare.testing import parametrize_schemes
from posenc_compare.variants import labelled

EXAMPLES = Path(__file__).parent.parent / "examples"


def faults(label: str, codes: Iterable[str] = CHECKS) -> list[str]:
    """Return the detail of each check that a scheme fails."""
    subject = Subject(labelled(label))
    outcomes = [run_check(subject, code) for code in codes]
    return [f"{o.check.code}: {o.detail}" for o in outcomes if o.state == "failed"]


@pytest.mark.parametrize("name", built_in())
def test_built_in_schemes(name: str) -> None:
    assert faults(name) == []


@parametrize_schemes(
    "triangle", plugin=str(EXAMPLES / "plugin_package" / "posenc_triangle.py")
)
def test_a_scheme_of_a_package(conform) -> None:
    conform()


# Options that bring other code, and those of the comparisons of record. Raw integers
# are not among them: they overflow float16, and beside them tokens lose their digits.
VARIANTS = [
    "rope:scaling=yarn;factor=4",
    "rope:layout=half;fraction=0.5",
    "deberta:p2c_index=paper;reach=16",
    "cope:scaled=true",
    "alibi:direction=causal",
    "randomized:scheme=rope",
    "rope_2d:kind=mixed",
    "rerope:stretched=true",
    "cape:centred=true",
    "path:forget=true",
    "selective_rope:gate=true",
    "mix:every=2",
]
OF_A_CLASS = {"C02", "C03", "C09", "C10", "C22", "C23", "C24"}  # whatever its options


@pytest.mark.parametrize("label", VARIANTS)
def test_variants(label: str) -> None:
    assert faults(label, sorted(CHECKS.keys() - OF_A_CLASS)) == []


# More options that bring other code; some of their parameters exist with them alone.
LEARNED = [
    "ca_rope:start=half",
    "com_rope:block=2",
    "com_rope:block=2;kind=ap",
    "com_rope:block=4;kind=ap",
    "cope:limit=3",
    "dape:base=t5_bias",
    "fope:learned=true",
    "grape_a:gate=key",
    "grape_ap:turned=both",
    "inkling:clip=2;rank=3;reach=4",
    "lie_re:block=2;by=layer",
    "rope_learned:by=head;temperature=true",
    "shaw:per_head=true;reach=2",
    "tapa:power=0.5",
    "tupe:relative=t5_bias",
    "wall:forget=true",
]


@pytest.mark.parametrize("label", LEARNED)
def test_gradients_are_those_of_finite_differences(label: str) -> None:
    assert faults(label, ["C15"]) == []
