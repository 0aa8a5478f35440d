"""The conformance checks find faults that are easily missed, and say what they are."""

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posenc_compare.check import Outcome, Subject, built_in, run_check
from posenc_compare.check.checks import ContractError, expect_close, explain
from posenc_compare.check.global_state import preserve_state, process_state
from posenc_compare.check.harness import normal
from posenc_compare.check.hints import hints
from posenc_compare.registry import add_plugin
from posenc_compare.schemes.rope import Rope
from posenc_compare.testing import parametrize_schemes
from posenc_compare.variants import labelled, parse_variants

FAULTY = str(Path(__file__).parent / "support" / "nonconforming_schemes.py")


@pytest.fixture(autouse=True)
def _registered() -> None:
    add_plugin(FAULTY)


def outcome(label: str, code: str, plugin: str = FAULTY) -> Outcome:
    (variant,) = parse_variants(label)
    return run_check(Subject(variant, plugin), code)


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("logits:what=row", "C13", "row 1 of packed documents"),
        ("distance:what=first_decodes", "C20", "decoding of packed documents"),
        ("logits:what=overhears", "C14", "other heads than 0, whose queries changed"),
        ("distance:what=keys", "C14", "other heads than 0, whose keys changed"),
        ("distance:what=hides", "C15", "ParameterList, got ['slopes']"),
        ("distance:what=hides_more", "C15", "ParameterList, got ['_nets', '_nets']"),
        ("distance:what=third_head", "C21", "after a shift by 1 within"),
        ("distance:what=far", "C21", "(smallest input: reach 300)"),
        ("distance:what=beyond", "C21", "built for 64 after a shift by 63 "),
        ("rope:what=narrow", "C04", "dtype of angles: float64, got float32"),
        ("rope:what=remembers", "C09", "after a text that ends at position 99"),
        ("caches", "C09", "the same bits after a text in float32"),
        ("slopes", "C17", "offset_bias is rounded; compute it from `offsets.double()`"),
        ("slopes:what=float", "C15", "a hook computes in float32 here, and may round"),
        ("distance:what=half", "C17", "no half precision in a call in torch.float64"),
        ("process:what=seeds", "C10", "building to leave the seed of torch"),
        ("process:what=seeds_python", "C10", "process, got random numbers of Python"),
        ("process:what=default", "C10", "process by building, got default dtype"),
        ("process", "C24", "no change of the process by its build, got default dtype"),
        ("rope:what=writes", "C11", "others in q (smallest input: past 0, packed "),
        ("fox:what=empties", "C11", "others in past (smallest input: past 4, packed "),
        ("distance:what=moves", "C11", "others in key_positions (smallest input: past"),
        ("fox:what=leaks", "C18", "(smallest input: length 129, built 600)"),
        ("distance:what=index", "C19", "(smallest input: length 40)"),
        ("late", "C20", "(smallest input: steps [490, 1, 9], noise "),
        ("logits:what=unmasked", "C21", "output of a packed document without a mask"),
        ("distance:what=padded", "C21", "output after padding"),
        ("distance:what=last", "C21", "output of the last queries without a mask"),
        ("order", "C21", "logits at other ids (`by_order`)"),
        ("rate", "C08", "no NaN in torch.float64, got NaN"),
        ("blind", "C21", "logits that the distance changes"),
        ("code:what=noisy", "C10", "random numbers"),
        ("code:what=noisy", "C18", "(smallest input: length 1, built 600)"),
        ("code:what=rounds", "C17", "in bfloat16"),
        ("code:what=ends", "C18", "UndefinedPositionError"),
        ("code:what=relative", "C18", "apart (smallest input: length 2, built "),
        ("buffers", "C22", "buffers, too: table; compute them in the hook"),
        ("wraps", "C05", "expected to fail (it says so), and passes"),
        ("rope:what=whole", "C19", "logits that half a position changes"),
        ("rope:what=keeps", "C19", "output of other positions before"),
        ("rope:what=buffer", "C17", "(rounded buffers: rate; compute them in the"),
        ("rope:what=trains", "C09", "the same bits of one seed"),
        ("rope:what=trains", "C10", "random numbers of torch"),
        ("rope:what=trains", "C11", "others in positions (smallest input: past 0, pac"),
        ("distance:what=stretched", "C18", "(smallest input: length 2, built 64)"),
        ("distance:what=layer", "C21", "output of layer 1 (or `per_layer=True`)"),
        ("distance:what=before", "C21", "logits after a shift by -20"),
        ("far", "C15", "(smallest input: length 40)"),
        ("mask", "C21", "output beyond a window"),
        ("misspelt", "C21", "got none; `ofset_bias` looks like `offset_bias`"),
        ("hookless", "C21", "expected a hook to be overridden, got none"),
        ("rope:what=gradient", "C15", "the gradient of the tokens that finite differ"),
        ("trained:what=detached", "C15", "of `rate` that finite differences give, got"),
        ("trained:what=detached", "C15", "reaches it: is it detached, or kept from"),
        ("trained:what=infinite", "C15", "a finite gradient of `rate`, got NaN"),
    ],
)
def test_a_subtle_fault_is_found(name: str, code: str, said: str) -> None:
    found = outcome(f"faulty_{name}", code)
    assert found.state == "failed"
    assert said in found.detail


@pytest.mark.parametrize(
    ("what", "hint"),
    [
        (
            "detached",
            "in a text of 64 tokens, no gradient reaches rate: unused or detached?",
        ),
        (
            "unused",
            "in a text of 64 tokens, no gradient reaches other: unused or detached?",
        ),
        ("starts", "all parameters start with a gradient of 0: do they train?"),
    ],
)
def test_a_parameter_that_does_not_train_is_asked_about(what: str, hint: str) -> None:
    label = f"faulty_trained:what={what}"
    assert [*hints(Subject(labelled(label)))] == [f"{label}: {hint}"]


def test_built_in_schemes_are_not_asked_about() -> None:
    every = [hint for name in built_in() for hint in hints(Subject(labelled(name)))]
    assert not every


def test_a_number_alone_may_be_trained() -> None:
    assert normal(seed=1).dim() == 0


def test_what_a_scheme_changes_is_put_back() -> None:
    before = process_state()
    outcome("faulty_process:what=default", "C01")
    outcome("faulty_process:what=seeds_python", "C05")
    assert process_state() == before


def test_every_part_of_the_process_is_put_back(tmp_path: Path) -> None:
    before = process_state()
    with preserve_state():
        for draw in (torch.rand, random.randbytes, np.random.bytes):
            draw(1)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.set_grad_enabled(False)
        torch.set_float32_matmul_precision("medium")
        torch.set_autocast_enabled("cpu", True)
        warnings.simplefilter("always")
        torch.use_deterministic_algorithms(True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CONFORMANCE", "1")
            patch.syspath_prepend(tmp_path)
            now = process_state()
        same = [name for name in before if now[name] == before[name]]
        assert same == ["threads"]
    assert process_state() == before


@pytest.mark.usefixtures("forgetful")
def test_an_import_that_changes_the_process_is_found(tmp_path: Path) -> None:
    path = tmp_path / "on_import.py"
    path.write_text(
        "import torch\n"
        "from posenc_compare.schemes import Scheme, register\n"
        "torch.set_default_dtype(torch.float64)\n"
        "@register('faulty_on_import', family='bias', source='nobody 2026')\n"
        "class OnImport(Scheme):\n"
        "    '''Change the process when it is imported.'''\n"
    )
    with preserve_state():
        add_plugin(str(path))
    found = outcome("faulty_on_import", "C24", str(path))
    said = "no change of the process by its import, got default dtype"
    assert (found.state, found.detail) == ("failed", f"expected {said}")


def test_facts_of_what_cannot_be_built_are_those_of_the_class() -> None:
    assert outcome("faulty_unbuilt", "C14").state == "not applicable"
    found = outcome("faulty_unbuilt", "C01")
    assert found.cause.startswith("RuntimeError in __init__ (nonconforming_schemes.py:")


def test_an_error_inside_a_scheme_names_its_line() -> None:
    lines = Path(FAULTY).read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "too many" in text)
    found = [outcome("faulty_raises", code) for code in ("C05", "C12", "C13", "C24")]
    start = (
        f"RuntimeError in embed (nonconforming_schemes.py:{line}): too many lines and"
    )
    assert {o.cause for o in found[:3]} == {found[0].cause}
    assert found[0].cause.startswith(start)
    assert found[0].cause.endswith((" and ...", " words ..."))
    assert found[0].detail == f"{found[0].cause} (smallest input: length 0)"
    assert len(found[0].detail) <= 300
    advice = "; beyond its last position it must raise UndefinedPositionError, and "
    advice += "tensors of a call may have a batch of 1"
    assert explain(IndexError("9"), Rope) == f"IndexError: 9{advice}"
    assert found[3].state == "passed"  # what fails in a call is not its import's fault


def test_every_outcome_reaches_the_tests_of_authors() -> None:
    def run(label: str, code: str) -> None:
        def test(conform: Any) -> None: ...

        marked: Any = parametrize_schemes(label, plugin=FAULTY)(test)
        cases = marked.pytestmark[0].args[1]
        (case,) = (case for case in cases if case.id == f"{label}-{code}")
        case.values[0]()

    def both(conform: Any) -> None: ...

    two: Any = parametrize_schemes("nope", "rope")(both)
    ids = [case.id for case in two.pytestmark[0].args[1]]
    assert {"nope-C01", "rope-C01"} < {*ids}
    label = "faulty_logits:what=row"
    run(label, "C01")
    said = f"^{label}: C13 treats the rows of a batch independently: expected row 1"
    with pytest.raises(AssertionError, match=said):
        run(label, "C13")
    with pytest.raises(pytest.skip.Exception, match="not applicable: mixes heads"):
        run("faulty_wraps", "C14")
    with pytest.raises(pytest.xfail.Exception, match="the middle is that of all"):
        run("cape:centred=true", "C18")


INF = float("inf")


@pytest.mark.parametrize("values", [[0.0, float("nan")], [0.0, INF], [1.0, -INF]])
def test_what_is_not_finite_is_not_close(values: list[float]) -> None:
    wanted = torch.tensor([0.0, values[1]])
    with pytest.raises(ContractError):
        expect_close(torch.tensor(values), wanted, 0.5, "output")


def test_what_is_masked_in_both_is_close() -> None:
    masked = torch.tensor([0.0, -INF])
    expect_close(masked, masked.double(), 0, "output")
    with pytest.raises(ContractError, match="inf apart"):
        expect_close(masked, torch.zeros(2), 1, "output")
