"""Registration of checks, running one, and describing its outcome."""

from collections.abc import Callable
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor

from posenc_compare.check.harness import Subject
from posenc_compare.global_state import preserve_state
from posenc_compare.schemes.facts import Facts
from posenc_compare.schemes.scheme import Scheme

EXACT = 1e-10  # absolute error in float64, for values of order one
LONGEST = 230  # characters of a cause in a message
CURES = {  # by what torch says
    "same dtype": "`posenc_compare.schemes.shared.layers.apply_wide` applies a layer "
    "in the wider dtype"
}

Run = Callable[[Subject, Any], None]


class ContractError(AssertionError):
    """A scheme breaks its contract; the message has the expected and actual result."""


def expect(condition: object, expected: str, got: object) -> None:
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
    difference = (got.double() - wanted.double()).abs().masked_fill(got == wanted, 0)
    worst = difference.max().item() if difference.numel() else 0.0
    expect(worst <= bound, f"{what} within {bound:.1e}", f"{worst:.1e} apart")


@dataclass(frozen=True)
class Check:
    """A requirement that every scheme must meet.

    Attributes:
        code: C01 to C24.
        title: the requirement.
        run: `(subject, rung)`; raises an error if the requirement is not met.
        ladder: inputs (rungs) from the smallest up.
        say: describes a rung in words.
        not_for: returns the reason why a scheme is exempt by its facts, or "".
    """

    code: str
    title: str
    run: Run
    ladder: tuple[Any, ...]
    say: Callable[[Any], str]
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


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype for messages, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def count(number: int, thing: str = "token") -> str:
    """Return a count in words.

    Example:
        >>> count(1), count(7, "position")
        ('1 token', '7 positions')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"


def check(
    code: str,
    title: str,
    *ladder: object,
    say: Callable[..., str] = count,
    not_for: Callable[[Facts], str] = lambda facts: "",
) -> Callable[[Run], Run]:
    """Register a check under its code; by default a rung is a number of tokens."""

    def file(run: Run) -> Run:
        FILED[code] = Check(code, title, run, ladder or (None,), say, not_for)
        return run

    return file


def run_check(subject: Subject, code: str) -> Outcome:
    """Run a check on growing inputs, up to the first that fails."""
    with preserve_state():
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
    """Return one line with the error, and its line in the scheme's own file."""
    said = " ".join(str(fault).split())
    if not isinstance(fault, ContractError):
        said = f"{type(fault).__name__}{place(fault, scheme)}: {said}"
    if len(said) > LONGEST:
        said = said[:LONGEST].rpartition(" ")[0] + " ..."
    cures = [cure for sign, cure in CURES.items() if sign in str(fault)]
    return "; ".join([said, *cures])


def place(fault: Exception, scheme: type[Scheme]) -> str:
    """Return the innermost method and line in the scheme's own file, or ""."""
    found = ""
    for frame, line in walk_tb(fault.__traceback__):
        if frame.f_globals.get("__name__") == scheme.__module__:
            method = frame.f_code.co_qualname.partition(".<locals>")[0]
            file = frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
            found = f" in {method.rpartition('.')[2]} ({file}:{line})"
    return found
