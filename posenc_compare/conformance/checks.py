"""The catalogue of checks: filing one, running one, and saying what it found."""

from collections.abc import Callable
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor

from posenc_compare.conformance.harness import Subject
from posenc_compare.global_state import put_back
from posenc_compare.schemes.facts import Facts
from posenc_compare.schemes.scheme import Scheme

EXACT = 1e-10  # of float64, on values of order one
LONGEST = 230  # characters that a cause may take of a line

Run = Callable[[Subject, Any], None]


class ContractError(AssertionError):
    """What was expected, what came."""


def expect(condition: Any, expected: str, got: Any) -> None:
    """Raise `ContractError` unless the condition holds."""
    if not condition:
        raise ContractError(f"expected {expected}, got {got}")


def expect_close(got: Tensor, wanted: Tensor, bound: float, what: str) -> None:
    """Raise `ContractError` unless two tensors agree within an absolute bound.

    Every value must be finite, or -inf in both.
    """
    shape = tuple(wanted.shape)
    expect(tuple(got.shape) == shape, f"{what} of {shape}", tuple(got.shape))
    for values in (got, wanted):
        for wrong, name in ((values.isnan(), "NaN"), (values.isposinf(), "inf")):
            expect(not wrong.any(), f"{what} without {name}", name)
    apart = (got.double() - wanted.double()).abs().masked_fill(got == wanted, 0)
    worst = apart.max().item() if apart.numel() else 0.0
    expect(worst <= bound, f"{what} within {bound:.1e}", f"{worst:.1e} apart")


@dataclass(frozen=True)
class Check:
    """One thing that every scheme must do.

    Attributes:
        code: C01 to C24.
        title: what is checked.
        run: `(subject, rung)`; raises an error where it does not hold.
        ladder: rungs from the smallest input up.
        say: puts a rung into words.
        not_for: returns why a scheme is exempt by what it declares, or nothing.
    """

    code: str
    title: str
    run: Run
    ladder: tuple[Any, ...]
    say: Callable[[Any], str]
    not_for: Callable[[Facts], str]


@dataclass(frozen=True)
class Outcome:
    """What a check found: passed, failed, expected to fail, or not applicable.

    Attributes:
        check: which was run.
        state: one of these four.
        cause: why it did not pass, on one line; the same cause reads the same.
        where: the smallest input that shows it, in words, if inputs differ in size.
    """

    check: Check
    state: str
    cause: str = ""
    where: str = ""

    @property
    def detail(self) -> str:
        """Return the cause, and the input that shows it."""
        return self.cause + (f" (smallest input: {self.where})" if self.where else "")


FILED: dict[str, Check] = {}
"""Checks by their codes, as the modules file them."""


def dtype_name(dtype: torch.dtype) -> str:
    """Return how a message writes a dtype."""
    return str(dtype).removeprefix("torch.")


def count(number: int, thing: str = "token") -> str:
    """Return a number of things in words.

    Example:
        >>> count(1), count(7, "position")
        ('1 token', '7 positions')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"


def check(
    code: str,
    title: str,
    *ladder: Any,
    say: Callable[[Any], str] = count,
    not_for: Callable[[Facts], str] = lambda facts: "",
) -> Callable[[Run], Run]:
    """File a check under its code; rungs are numbers of tokens unless it says."""

    def file(run: Run) -> Run:
        FILED[code] = Check(code, title, run, ladder or (None,), say, not_for)
        return run

    return file


def run_check(subject: Subject, code: str) -> Outcome:
    """Run one check; the first rung that fails is the smallest that shows the fault."""
    with put_back():
        return _run(subject, FILED[code])


def _run(subject: Subject, found: Check) -> Outcome:
    if reason := found.not_for(subject.declared):
        return Outcome(found, "not applicable", reason)
    known = subject.declared.known_faults.get(found.code, "")
    for rung in found.ladder:
        try:
            found.run(subject, rung)
        except Exception as fault:
            cause = explain(fault, subject.scheme)
            where = "" if rung is None else found.say(rung)
            if known:
                return Outcome(found, "expected to fail", f"{known}: {cause}", where)
            return Outcome(found, "failed", cause, where)
    if known:
        return Outcome(found, "failed", f"expected to fail ({known}), and passes")
    return Outcome(found, "passed")


def explain(fault: Exception, scheme: type[Scheme]) -> str:
    """Return one line that says what went wrong, and where in the scheme's own file."""
    said = " ".join(str(fault).split())
    if not isinstance(fault, ContractError):
        said = f"{type(fault).__name__}{place(fault, scheme)}: {said}"
    if len(said) > LONGEST:
        said = said[:LONGEST].rpartition(" ")[0] + " ..."
    return said


def place(fault: Exception, scheme: type[Scheme]) -> str:
    """Return the innermost method and line of the scheme's own file, or nothing."""
    found = ""
    for frame, line in walk_tb(fault.__traceback__):
        if frame.f_globals.get("__name__") == scheme.__module__:
            method = frame.f_code.co_qualname.partition(".<locals>")[0]
            file = frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
            found = f" in {method.rpartition('.')[2]} ({file}:{line})"
    return found
