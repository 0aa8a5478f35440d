"""Faults in the conformance checks themselves."""

from planted import Fault

FILES = ("conformance/*.py", "testing.py")
TESTS = "tests/test_conformance_faults.py::test_"
FOUND = "a_subtle_fault_is_found"


def fault(file: str, name: str, old: str, new: str, test: str = FOUND) -> Fault:
    """Return a fault, and the test that must turn red."""
    return Fault(f"conformance/{file}.py", name, old, new, TESTS + test)


FAULTS = [
    fault(
        "equivariance",
        "no packed rows",
        "for packed in (None, segments):",
        "for packed in (None,):",
    ),
    fault(
        "equivariance",
        "queries alone",
        "other[role][:, head] += 1",
        "other[0][:, head] += 1",
    ),
    fault(
        "equivariance",
        "built for one length",
        "length in (64, LONG)",
        "length in (LONG,)",
    ),
    fault(
        "equivariance",
        "other documents unseen",
        "    _expect_documents_to_be_independent(layer, subject, x, positions)\n",
        "",
    ),
    fault("side_effects", "few texts", "((0, 100), (200, 9),", "((200, 9),"),
    fault("side_effects", "past may change", '"past": earlier}', '"past": None}'),
    fault(
        "side_effects", "seeds may change", "for seed in (1, 2)]", "for seed in (1, 1)]"
    ),
    fault(
        "precision", "half unseen", "    _expect_no_half_precision(layer, places)\n", ""
    ),
    fault("shapes", "NaN far away", "if noise < 1 else (torch.float64,)", "[:0]"),
    fault(
        "checks",
        "masked values apart",
        ".masked_fill(got == wanted, 0)",
        "",
        "what_is_masked_in_both_is_close",
    ),
    fault(
        "fresh_process",
        "import unseen",
        "imported=changes(before),",
        "imported=[],",
        "an_import_that_changes_the_process_is_found",
    ),
    fault(
        "harness",
        "facts of the class",
        "return self.build(noise=0).facts\n",
        "return scheme.facts\n",
        "facts_are_those_of_the_built_scheme",
    ),
    Fault(
        "testing.py",
        "failures pass",
        'outcome.state == "failed"',
        'outcome.state == "fails"',
        f"{TESTS}every_outcome_reaches_the_tests_of_authors",
    ),
]
