"""Decomposed relative positions (ViTDet, SAM).

Adds to each logit the product of the query with two trained vectors: one for the offset
along rows, and one for that along columns. On other images than the trained one, the
two tables of vectors are resized.

Formula: `bias[h, i, j] = q_i . R(i_r - j_r) + q_i . C(i_c - j_c)`, not divided by
sqrt(head_dim). R and C have `2 side - 1` rows; on another side they are interpolated
linearly to as many as that side has, with corners not aligned.
Source: Kirillov et al. 2023, arXiv:2304.02643 (SAM), after Li et al. 2022,
arXiv:2203.16527 (ViTDet); from transformers' port (sam), which was read, the papers and
the authors' code were not.
Sign: query minus key. All heads of a layer share the vectors. They start at zero.
Not done: windows, which both papers have in most layers.
Outside a pass, where the image is unknown, its sides are those of training.
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
    gather_bias,
    register,
)
from posenc_compare.schemes.shared.blocks import image_sides

FAULT = "tables span the whole image, so cells beyond a part of it count"


@register(
    "decomposed",
    family="contextual",
    source="Kirillov et al. 2023, arXiv:2304.02643",
    axes=2,
    identities="on its own image a shift changes no logit; starts as `nope`",
    oracles="transformers 4e-7",
    checked="transformers, papers not opened",
)
class Decomposed(Scheme):
    """Add products of the query with a vector per offset of rows and of columns.

    `2 * (height + width - 1) * head_dim` parameters.

    Args:
        geometry: `head_dim` channels of a vector.
        height: rows of the trained image; 0 means the smallest square that holds
            `length`.
        width: its columns; 0 likewise.
    """

    facts = Facts(per_layer=True, known_faults=dict.fromkeys(("C18", "C21"), FAULT))

    def __init__(self, geometry: Geometry, *, height: int = 0, width: int = 0) -> None:
        super().__init__(geometry)
        self.sides = image_sides("decomposed", geometry, height, width)
        self.rows, self.columns = (
            nn.Parameter(torch.zeros(2 * side - 1, geometry.head_dim))
            for side in self.sides
        )

    def draw(self, positions: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return the sides of the image, `(..., axis)` int64."""
        if not positions.numel():
            return positions.new_tensor(self.sides)
        return positions.amax(dim=-2) - positions.amin(dim=-2) + 1

    def pair_bias(self, call: Call) -> PairBias:
        away = call.q_positions[:, :, None] - call.k_positions[:, None]
        sides = away.new_tensor(self.sides) if call.drawn is None else call.drawn
        sides = sides.to(away.device).view(-1, 2)
        down, across = (
            self._products(call, table, away[..., axis], sides[:, axis, None, None])
            for axis, table in enumerate((self.rows, self.columns))
        )
        return WholeBias(
            lambda b, h, i, j: down(b, h, i, j) + across(b, h, i, j),
            lambda: down.whole() + across.whole(),
        )

    def _products(
        self, call: Call, table: Tensor, away: Tensor, side: Tensor
    ) -> WholeBias:
        """Return the products of queries with a resized table.

        Args:
            call: the attention call.
            table: `(offset, head_dim)`.
            away: offsets along its axis, `(batch or 1, query, key)`.
            side: of each image along that axis, `(batch or 1, 1, 1)`.
        """
        self._check(away, side)
        last = len(table) - 1
        place = (away + side - 0.5).double() * len(table) / (2 * side - 1) - 0.5
        place = place.clamp(0, last)
        before = place.floor().long()
        share = (place - before).expand(call.q.shape[0], -1, -1)
        wide = torch.promote_types(call.q.dtype, torch.float32)
        products = call.q.to(wide) @ table.to(wide).mT  # (batch, heads, query, offset)
        one = gather_bias(products, before)
        # A tensor of its own, for flex learns through one index of a tensor alone.
        after = torch.cat([products[..., 1:], products[..., -1:]], dim=-1)
        other = gather_bias(after, before)

        def pair(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            part = share[b, i, j].to(wide)
            return (1 - part) * one(b, h, i, j) + part * other(b, h, i, j)

        def whole() -> Tensor:
            part = share[:, None].to(wide)
            return (1 - part) * one.whole() + part * other.whole()

        return WholeBias(pair, whole)

    def _check(self, away: Tensor, side: Tensor) -> None:
        """Refuse offsets that an image of these sides has not."""
        inside = away.abs() < side
        if assert_in_graph(inside, "decomposed: cells must lie within one image"):
            return
        if not inside.all():
            got = int(away.abs().where(~inside, 0).max())
            limit = int(side.max())
            between = "rows or columns between two cells"
            raise UndefinedPositionError(
                self.name,
                limit,
                got,
                between,
                "a Session, which reads the image's size,",
            )
