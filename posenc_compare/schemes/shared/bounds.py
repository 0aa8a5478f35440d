"""Bounds on what is trained."""

import math

from torch import Tensor


def clamp_straight_through(
    parameter: Tensor, least: float, most: float = math.inf
) -> Tensor:
    """Return the parameter within bounds, with the gradient of the parameter."""
    return parameter + (parameter.clamp(least, most) - parameter).detach()
