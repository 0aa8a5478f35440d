"""Registration of checks, running one, and describing its outcome."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

from torch import Tensor

from posenc_compare.check.global_state import preserve_state
from posenc_compare.check.harness import Subject
from posenc_compare.schemes.scheme import Facts, Scheme

EXACT = 1e-10  # absolute error in float64, for values of order one
LONGEST = 230  # characters of a cause in a message

Run = Callable[..., None]


class ContractError(AssertionError):
    """A scheme breaks its contract; the message has the expected and actual result."""


class NoNumberError(ContractError):
    """A tensor contains NaN, perhaps for the shortest texts alone, as after 0 / 0."""


def expect(condition: object, expected: str, got: object) -> None:
    """Raise `ContractError` unless the condition holds."""
    if not condition:
        raise ContractError(f"expected {expected}, got {got}")


def expect_equal(got: object, wanted: object, what: str) -> None:
    """Raise `ContractError` unless two values are equal."""
    expect(got == wanted, f"{what}: {_words(wanted)}", _words(got))


def expect_finite(values: Tensor, what: str = "finite outputs") -> None:
    """Raise `ContractError` unless all values are finite."""
    expect(values.isfinite().all(), what, "others")


def expect_close(
    got: Tensor, wanted: Tensor, bound: float, what: str, hint: str = ""
) -> None:
    """Raise `ContractError` unless two tensors agree within an absolute bound.

    Every value must be finite, or -inf in both. A `hint` follows the difference.
    """
    expect_equal(got.shape, wanted.shape, f"shape of {what}")
    for values in (got, wanted):
        if values.isnan().any():
            raise NoNumberError(f"expected {what} without NaN, got NaN")
        expect(not values.isposinf().any(), f"{what} without inf", "inf")
    difference = (got.double() - wanted.double()).abs().masked_fill(got == wanted, 0)
    worst = difference.max().item() if difference.numel() else 0.0
    expect(worst <= bound, f"{what} within {bound:.1e}", f"{worst:.1e} apart{hint}")


@dataclass(frozen=True)
class Check:
    """A requirement that every scheme must meet.

    Attributes:
        code: C01 to C24.
        title: the requirement.
        run: takes a subject and an input; raises an error if the requirement is not
            met.
        inputs: arguments of `run`, from the smallest input up.
        not_for: returns the reason why a scheme is exempt by its facts, or "".
    """

    code: str
    title: str
    run: Run
    inputs: Sequence[dict[str, Any]]
    not_for: Callable[[Facts], str]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check.

    Attributes:
        check: the check that was run.
        state: passed, failed, expected to fail, or not applicable.
        cause: the reason if it did not pass, on one line; equal causes have equal text.
        where: the smallest input that shows the cause, in words; "" if the check has
            one input only.
    """

    check: Check
    state: str
    cause: str = ""
    where: str = ""

    @property
    def detail(self) -> str:
        """Return the cause and the input that shows it."""
        return self.cause + (f" (smallest input: {self.where})" if self.where else "")


FILED: dict[str, Check] = {}
"""Registered checks by code."""


def check(
    code: str,
    title: str,
    *,
    not_for: Callable[[Facts], str] = lambda facts: "",
    **inputs: Sequence[object],
) -> Callable[[Run], Run]:
    """Register a check under its code, for all combinations of its arguments.

    `inputs` are values of each argument of the check, from the smallest up.
    """
    every = [
        dict(zip(inputs, values, strict=True))
        for values in itertools.product(*inputs.values())
    ]

    def file(run: Run) -> Run:
        FILED[code] = Check(code, title, run, every, not_for)
        return run

    return file


def run_check(subject: Subject, code: str) -> Outcome:
    """Run a check on growing inputs, up to the first that fails.

    Another failure is reported rather than NaN, which tells less.
    """
    found, nan = FILED[code], None
    with preserve_state():
        if reason := found.not_for(subject.declared):
            return Outcome(found, "not applicable", reason)
        known = subject.declared.known_faults.get(code, "")
        for given in found.inputs:
            try:
                found.run(subject, **given)
            except Exception as fault:
                cause = explain(fault, subject.scheme)
                where = ", ".join(f"{key} {_words(x)}" for key, x in given.items())
                state = "expected to fail" if known else "failed"
                cause = f"{known}: {cause}" if known else cause
                outcome = Outcome(found, state, cause, where)
                if not isinstance(fault, NoNumberError):
                    return outcome
                nan = nan or outcome
    if nan:
        return nan
    if known:
        return Outcome(found, "failed", f"expected to fail ({known}), and passes")
    return Outcome(found, "passed")


def _words(value: object) -> str:
    """Return a value as messages have it: a dtype by its name, a shape as a tuple."""
    if isinstance(value, tuple):
        return str((*value,))
    return str(value).removeprefix("torch.")


def explain(fault: Exception, scheme: type[Scheme]) -> str:
    """Return one line with the error, and its line in the scheme's own file."""
    said = " ".join(str(fault).split())
    if not isinstance(fault, ContractError):
        said = f"{type(fault).__name__}{place(fault, scheme)}: {said}"
    if isinstance(fault, IndexError):
        said += "; beyond its last position it must raise UndefinedPositionError, and "
        said += "tensors of a call may have a batch of 1"
    if len(said) > LONGEST:
        said = said[:LONGEST].rpartition(" ")[0] + " ..."
    return said


def place(fault: Exception, scheme: type[Scheme]) -> str:
    """Return the innermost method and line in the scheme's own file, or ""."""
    found = ""
    for frame, line in walk_tb(fault.__traceback__):
        if frame.f_globals.get("__name__") == scheme.__module__:
            method = frame.f_code.co_qualname.partition(".<locals>")[0]
            file = frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
            found = f" in {method.rpartition('.')[2]} ({file}:{line})"
    return found
