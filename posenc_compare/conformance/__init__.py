"""Conformance: what every scheme must do, its own or a newcomer's, by what it declares.

Twenty-four checks, each on the smallest input that can show a fault: a check goes up
a ladder of sizes, and a failure names the first rung that shows it. Parameters are
moved away from their start, because a check at initialisation alone misses real
faults. No check knows any scheme by name.

They stand in `shapes`, `side_effects`, `precision` and `equivariance`, which register
them in `checks` when they are imported.
"""

from posenc_compare.conformance import (  # noqa: F401
    equivariance,
    precision,
    shapes,
    side_effects,
)
from posenc_compare.conformance.checks import FILED, Check, Outcome, run_check
from posenc_compare.conformance.fresh_process import built_in
from posenc_compare.conformance.harness import Subject

__all__ = ["CHECKS", "Check", "Outcome", "Subject", "built_in", "run_check"]

CHECKS: dict[str, Check] = dict(sorted(FILED.items()))
