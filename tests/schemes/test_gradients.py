"""Gradients under options that bring other code; a check has those of the defaults."""

import pytest

from posenc_compare.check import Subject, run_check
from posenc_compare.variants import labelled

LABELS = [
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
    "selective_rope:gate=true",
    "shaw:per_head=true;reach=2",
    "tapa:power=0.5",
    "tupe:relative=t5_bias",
    "wall:forget=true",
]


@pytest.mark.parametrize("label", LABELS)
def test_gradients_are_those_of_finite_differences(label: str) -> None:
    found = run_check(Subject(labelled(label)), "C15")
    assert (found.state, found.detail) == ("passed", "")
