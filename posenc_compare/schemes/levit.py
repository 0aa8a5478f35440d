"""LeViT's attention bias.

Adds to each logit a trained number per head, looked up by the distance in rows and the
distance in columns, whatever the direction.

Formula: `bias[h, i, j] = table[h, |rows_i - rows_j|, |columns_i - columns_j|]`.
Source: Graham et al. 2021, arXiv:2104.01136, section 4.2; start and scale as in the
authors' released code (facebookresearch/LeViT, levit.py).
Direction: symmetric along each axis. Positions are (row, column); only their distances
count, and one as large as the grid is an error.
Start: zeros. Products of query and key are divided by sqrt(head_dim), the bias is not.
Not done: LeViT's queries of every second row and column, in layers that shrink the map.
"""

import torch
from torch import Tensor, nn

from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    WholeBias,
    assert_in_graph,
    register,
)
from posenc_compare.schemes.shared.blocks import image_sides


@register(
    "levit",
    family="bias",
    source="Graham et al. 2021, arXiv:2104.01136",
    axes=2,
    identities="equals `swin` with a mirrored table; starts as `nope`",
    oracles="transformers 0",
    checked="paper, authors' code",
)
class Levit(Scheme):
    """Add a trained number per head and pair of distances along two axes.

    `height * width * heads` parameters.

    Args:
        geometry: `heads` rows of the table.
        height: rows of the grid; 0 means the smallest square that holds `length`.
        width: columns of the grid; 0 likewise.
    """

    facts = Facts(per_layer=True)

    def __init__(self, geometry: Geometry, *, height: int = 0, width: int = 0) -> None:
        super().__init__(geometry)
        self.height, self.width = image_sides("levit", geometry, height, width)
        self.table = nn.Parameter(torch.zeros(geometry.heads, self.height * self.width))

    def pair_bias(self, call: Call) -> PairBias:
        what = f"places in {self.height} x {self.width}"
        place = call.once(Levit, what, call.q_positions, lambda: self._places(call))
        each = place.expand(call.q.shape[0], -1, -1)
        return WholeBias(
            lambda b, h, i, j: self.table[h, each[b, i, j]],
            lambda: self.table[:, place].movedim(0, 1),
        )

    def _places(self, call: Call) -> Tensor:
        """Return the column of the table for every pair, `(batch or 1, query, key)`."""
        away = (call.q_positions[:, :, None] - call.k_positions[:, None]).abs()
        self._check(away)
        return away[..., 0] * self.width + away[..., 1]

    def _check(self, away: Tensor) -> None:
        """Refuse distances that the grid has not."""
        sides = away.new_tensor([self.height, self.width])
        if assert_in_graph(away < sides, "levit: cells must lie within one grid"):
            return
        most = away.flatten(0, 2).amax(dim=0).tolist() if away.numel() else [0, 0]
        named = ("rows", "height", self.height), ("columns", "width", self.width)
        for (what, option, limit), got in zip(named, most, strict=True):
            if got >= limit:
                between = f"{what} between two cells"
                advice = f"`{option}={got + 1}`"
                raise UndefinedPositionError(self.name, limit, got, between, advice)
