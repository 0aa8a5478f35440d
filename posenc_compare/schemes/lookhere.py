"""LookHere: heads that look in one direction.

Most heads see only the patches in a cone. The cone begins at the query and points in a
direction that differs between heads. Every head also subtracts a fixed multiple of the
distance in the plane from the logits of the patches that it sees.

Formula: `bias[h, i, j] = -s_l * s_h * slope * |i - j|` if j lies in the cone of head h
at i, edges included, and -inf otherwise.
Source: Fuller et al. 2024, arXiv:2405.13985, section 3 and equation 1. The edges of the
cones, and s_h of heads with a cone, are those of the authors' released code
(GreenCUBIC/lookhere, lookhere.py).
Views: cones of 180 or 90 degrees point up, down, left, right and along the four
diagonals. Eight cones of 45 degrees fill the space between these directions.
Slopes: s_l falls in equal steps from 1.5 in the first layer to 0.5 in the last. Of the
paper's twelve heads, eight have a cone, and s_h is 1. The last four see all patches,
and s_h is 1/2, 1/8, 1/32 and 1/128.
Heads: of H heads, the last `max(1, round(H / 3))` see all patches. If they are more
than four, the four values of s_h repeat. The other heads take the cones in the order
above. If they are more than eight, cones repeat with half the slope. Paper and code
agree with this for twelve heads; for 6 and 16, the code has other layouts, which are
left out.
Hidden patches: their bias is -2^100 here and -3.4e38 in the code, in place of -inf.
Their weights are 0.
Code: every s_h is half as large and the global slope is 2, which gives the same bias.
Only the configuration of 90 degrees was found; there, the diagonals come first.
Refused: keys of another text, since the cone of a query may hold no such key. Give the
paper's class token `placed=False`, so that all heads see it.
"""

from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    register,
)
from posenc_compare.transfer import to_device

HIDDEN = -(2.0**100)  # any product of query and key is lost in it, in all dtypes
VIEWS = {  # each cone by the half planes that it lies in
    "180": "u d l r ur ul dr dl",
    "90": "ul+ur dl+dr ul+dl ur+dr u+l u+r d+l d+r",
    "45": "l+ur l+dr u+dl u+dr r+ul r+dl d+ul d+ur",
}


def half_planes(cone: str) -> list[tuple[int, int]]:
    """Return the (row, column) directions of the two half planes of a cone."""
    names = cone.split("+")
    return [
        (("d" in name) - ("u" in name), ("r" in name) - ("l" in name))
        for name in (names[0], names[-1])
    ]


@register(
    "lookhere",
    family="bias",
    source="Fuller et al. 2024, arXiv:2405.13985",
    axes=2,
    own_text=True,
    identities="fields of view cover the plane evenly; hidden patches change no bit "
    "of the output",
    checked="paper, authors' code",
)
class LookHere(Scheme):
    """Show each head one direction, and subtract `slope * distance`. No parameters.

    Slopes depend on the layer, so each layer needs its own instance.

    Args:
        geometry: `heads` share the directions; `layer` and `layers` set the slopes.
        view: degrees of a cone.
        slope: factor of all slopes, in logits per position.
    """

    facts = Facts(per_layer=True, hides=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        view: Literal["180", "90", "45"] = "90",
        slope: float = 1.0,
    ) -> None:
        super().__init__(geometry)
        if slope < 0:
            raise ConfigError(f"lookhere: slope must be at least 0, got {slope}")
        cones, whole = VIEWS[view].split(), max(1, (geometry.heads + 1) // 3)
        looking = range(geometry.heads - whole)
        self.sides = [half_planes(cones[n % len(cones)]) for n in looking]
        self.sides += [[(0, 0), (0, 0)]] * whole
        by_head = [0.5 ** (n // len(cones)) for n in looking]
        by_head += [0.5 * 0.25 ** (n % 4) for n in range(whole)]
        by_layer = 1.5 - geometry.layer / max(geometry.layers - 1, 1)
        self.slopes = [slope * by_layer * one for one in by_head]

    def pair_bias(self, call: Call) -> PairBias:
        batch, device = call.q.shape[0], call.q.device
        slope = to_device(torch.tensor(self.slopes, dtype=torch.float64), device)
        sides = to_device(torch.tensor(self.sides, dtype=torch.float64), device)
        q_rows, q_columns = call.q_positions.double().expand(batch, -1, -1).unbind(-1)
        k_rows, k_columns = call.k_positions.double().expand(batch, -1, -1).unbind(-1)

        def bias(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            down, right = k_rows[b, j] - q_rows[b, i], k_columns[b, j] - q_columns[b, i]
            one = sides[h, 0, 0] * down + sides[h, 0, 1] * right >= 0
            other = sides[h, 1, 0] * down + sides[h, 1, 1] * right >= 0
            far = torch.hypot(down, right)
            return torch.where(one & other, -slope[h] * far, HIDDEN)

        return bias
