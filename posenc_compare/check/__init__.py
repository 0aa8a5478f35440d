"""24 contract checks for any scheme, built-in or third-party, from its declared facts.

Each check runs on inputs of increasing size, and a failure names the smallest input
that shows it. Parameters are perturbed, because a check at initialisation alone misses
real faults. No check depends on the name of a scheme.

The modules `shapes`, `side_effects`, `precision` and `equivariance` define the checks
and register them in `checks` when they are imported.
"""

from posenc_compare.check import (  # noqa: F401
    equivariance,
    precision,
    shapes,
    side_effects,
)
from posenc_compare.check.checks import FILED, Check, Outcome, run_check
from posenc_compare.check.fresh_process import built_in
from posenc_compare.check.harness import Subject
from posenc_compare.check.port import rotation_faults

__all__ = [
    "CHECKS",
    "Check",
    "Outcome",
    "Subject",
    "built_in",
    "rotation_faults",
    "run_check",
]

CHECKS: dict[str, Check] = dict(sorted(FILED.items()))
