"""Conformance checks for the test files of scheme authors.

In a test file of your own:

    from posenc_compare.testing import parametrize_schemes

    @parametrize_schemes("my_scheme", plugin="my_scheme.py")
    def test_conformance(conform):
        conform()
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posenc_compare.conformance import CHECKS, Subject, run_check
from posenc_compare.registry import add_plugin
from posenc_compare.variants import parse_variants


def parametrize_schemes(schemes: str, *, plugin: str = "") -> Callable[[Any], Any]:
    """Run a test once for every scheme and conformance check.

    Args:
        schemes: names, families, globs or variants, as on the command line.
        plugin: file or module that registers them, unless they are installed; a file
            may be given from the folder of the test file.

    Returns:
        A decorator for a test with one argument, `conform`. Calling it runs the
        check: it raises AssertionError with what was expected and what came, skips
        what does not apply by what the scheme declares, and marks what the scheme
        says it fails as expected.
    """

    def parametrize(test: Any) -> Any:
        beside = Path(inspect.getfile(test)).parent / plugin
        given = str(beside) if beside.is_file() else plugin
        if given:
            add_plugin(given)
        cases = [
            pytest.param(_conform(Subject(variant, given), code), id=f"{label}-{code}")
            for variant in parse_variants(schemes)
            for label in [variant.label]
            for code in CHECKS
        ]
        return pytest.mark.parametrize("conform", cases)(test)

    return parametrize


def _conform(subject: Subject, code: str) -> Callable[[], None]:
    def conform() -> None:
        if subject.plugin:  # another test may have forgotten it since
            add_plugin(subject.plugin)
        outcome = run_check(subject, code)
        said = f"{subject.variant.label}: {code} {outcome.check.title}"
        if outcome.state == "failed":
            raise AssertionError(f"{said}: {outcome.detail}")
        if outcome.state == "not applicable":
            pytest.skip(f"not applicable: {outcome.detail}")
        if outcome.state == "expected to fail":
            pytest.xfail(outcome.detail)

    return conform
