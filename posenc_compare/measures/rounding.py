"""Rounding: which differences are those of the computation, and not of a scheme.

Two numbers that are equal in theory differ in their last digits when they are computed
in another order. A difference that small says nothing of the scheme.
"""

import torch

from posenc_compare.measures.probe import Probe

NOTE = "rounding"


def rounding_note(difference: float, size: float, probe: Probe) -> str:
    """Return `rounding` if two numbers of this size may differ so by rounding alone.

    Numbers are sums of `width` products, each rounded once, of angles up to
    `positions` radians, rounded in proportion. In other dtypes than float64 nothing is
    said: there a reader has asked for the rounding.

    `size` is the larger magnitude of the two numbers.
    """
    if probe.dtype != "float64":
        return ""
    limit = torch.finfo(torch.float64).eps * (probe.width + probe.positions) * size
    return NOTE if 0 < abs(difference) <= limit else ""
