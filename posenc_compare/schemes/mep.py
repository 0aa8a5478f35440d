"""MEP: the logarithm of an average of kernels of the distance.

Multiplies attention weights, before they are normalised, by the average of several
functions that fall with the distance: exponentials, as in ALiBi, and a Gaussian. This
is done by adding the logarithm of the average to the logits.

Formula: `bias[h, i, j] = log((exp(-m_h d) + exp(-m_h d / 2) + exp(-m_h d ** 2)) / 3)`
with `d = |i - j|` and the slopes `m_h` of ALiBi. With `kernels=trained`, the second
exponential is replaced by `(1 + a_h d) ** -p_h`, the kernel of `kerple_log`.
Source: Gao 2024, arXiv:2403.17698, from the authors' released code (vangogh0318/MEP,
megatron/mpu/layers.py, ParallelSNOPE and ParallelSNOPEKerpleLog); of the paper, the
abstract was read.
Kernels: `fixed` is what ParallelSNOPE computes. `trained` is commented out in the other
class, but has configurations (ali_gaussian_kerplelog). As released, that class also has
T5's bias as a fourth kernel. This kernel is left out, since it is undefined at
real-valued distances.
Start: a from 0 to 1, p from 0 to 2, and a lower bound of 0.01 as in `kerple_log`.
Layers: all share one instance, as in the code.
Direction: the distance is |query - key|; the code knows the past only.
Precision: the code adds exponentials, which become 0 far away, and their logarithm
minus infinity. Here the logarithm stays finite.
"""

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.schemes.scheme import Geometry, Scheme, register
from posenc_compare.schemes.shared.bounds import clamp_straight_through
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.transfer import to_device

LEAST = 1e-2


@register(
    "mep",
    family="bias",
    source="Gao 2024, arXiv:2403.17698",
    real=True,
    identities="one kernel is that of `alibi`, another that of `alibi` with half the "
    "slopes or of `kerple_log`; finite at any distance",
    checked="authors' code, paper not opened",
)
class Mep(Scheme):
    """Add the log of an average of three kernels. No parameters, or two per head.

    Args:
        geometry: `heads` sets the slopes.
        kernels: `fixed` has no parameters; `trained` replaces the second exponential
            by the kernel of `kerple_log`.
    """

    def __init__(
        self, geometry: Geometry, *, kernels: Literal["fixed", "trained"] = "fixed"
    ) -> None:
        super().__init__(geometry)
        self.slopes = slopes(geometry.heads)
        self.steepness = self.rate = None
        if kernels == "trained":
            self.steepness = nn.Parameter(2 * torch.rand(geometry.heads))
            self.rate = nn.Parameter(torch.rand(geometry.heads))
            fault = "a parameter beyond its bound keeps its gradient, to come back"
            self.facts = replace(self.facts, known_faults={"C15": fault})

    def offset_bias(self, offsets: Tensor) -> Tensor:
        distance = offsets.abs().double()
        slope = to_device(
            torch.tensor(self.slopes, dtype=torch.float64), offsets.device
        )
        line = -slope[:, None] * distance  # (heads, offset)
        if self.steepness is None or self.rate is None:
            second = line / 2
        else:
            steepness = clamp_straight_through(self.steepness, LEAST)[:, None]
            second = -steepness * torch.log1p(
                clamp_straight_through(self.rate, LEAST)[:, None] * distance
            )
        logs = torch.stack([line, second, line * distance])
        return logs.logsumexp(dim=0) - math.log(3)
