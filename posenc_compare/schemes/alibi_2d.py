"""ALiBi of two axes.

Every head subtracts a fixed multiple of the distance in the plane from its logits.

Formula: `bias[h, i, j] = -m_h * |i - j|`, a length in the plane, with slopes m.
Source: Fuller et al. 2023, arXiv:2311.00566 (CROMA, 2D-ALiBi); slopes and distance as
in the authors' released code (antofuller/CROMA, get_2dalibi).
Metric: l2 as released; other repositories take l1 or linf. On one row all three are
ALiBi. Positions are (row, column), with no token outside the plane.
"""

from typing import Literal

import torch
from torch import Tensor

from posenc_compare.schemes.scheme import Call, Geometry, PairBias, Scheme, register
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.transfer import to_device

METRICS = {
    "l2": torch.hypot,
    "l1": torch.add,
    "linf": torch.maximum,
}


@register(
    "alibi_2d",
    family="bias",
    source="Fuller et al. 2023, arXiv:2311.00566",
    axes=2,
    real=True,
    checked="authors' code",
)
class Alibi2d(Scheme):
    """Subtract `slope * distance` in the plane from every logit. Has no parameters.

    Args:
        geometry: `heads` sets the slopes.
        metric: what distance is made of those of row and column.
    """

    def __init__(
        self, geometry: Geometry, *, metric: Literal["l2", "l1", "linf"] = "l2"
    ) -> None:
        super().__init__(geometry)
        self.slopes = slopes(geometry.heads)
        self.metric = metric

    def pair_bias(self, call: Call) -> PairBias:
        batch = call.q.shape[0]
        slope = to_device(torch.tensor(self.slopes, dtype=torch.float64), call.q.device)
        measure = METRICS[self.metric]
        q_rows, q_columns = call.q_positions.double().expand(batch, -1, -1).unbind(-1)
        k_rows, k_columns = call.k_positions.double().expand(batch, -1, -1).unbind(-1)

        def bias(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            rows = (q_rows[b, i] - k_rows[b, j]).abs()
            columns = (q_columns[b, i] - k_columns[b, j]).abs()
            return -slope[h] * measure(rows, columns)

        return bias
