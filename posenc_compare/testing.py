"""Conformance checks for the test files of scheme authors.

Use it in a test file of your own::

    from posenc_compare.testing import parametrize_schemes

    @parametrize_schemes("my_scheme", plugin="my_scheme.py")
    def test_conformance(conform):
        conform()
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from posenc_compare.check import CHECKS, Subject, run_check
from posenc_compare.registry import add_plugin
from posenc_compare.variants import parse_variants

Test = TypeVar("Test", bound=Callable[..., object])


def parametrize_schemes(*schemes: str, plugin: str = "") -> Callable[[Test], Test]:
    """Run a test once for every scheme and conformance check.

    Args:
        *schemes: names, families, globs or variants, as on the command line; one or
            more.
        plugin: file or module that registers the schemes, if they are not installed;
            a file may be relative to the folder of the test file.

    Returns:
        A decorator for a test with one argument, `conform`. Calling `conform()` runs
        the check. If the check fails, it raises AssertionError with the expected and
        the actual result. It skips a check that does not apply to the scheme, and
        xfails a deviation that the scheme declares in `known_faults`.
    """

    def parametrize(test: Test) -> Test:
        beside = Path(inspect.getfile(test)).parent / plugin
        given = str(beside) if beside.is_file() else plugin
        if given:
            add_plugin(given)
        cases = [
            pytest.param(_conform(subject, code), id=f"{variant.label}-{code}")
            for variant in parse_variants(",".join(schemes))
            for subject in [Subject(variant, given)]
            for code in CHECKS
        ]
        return pytest.mark.parametrize("conform", cases)(test)

    return parametrize


def _conform(subject: Subject, code: str) -> Callable[[], None]:
    def conform() -> None:
        if subject.plugin:  # another test may have removed it
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
