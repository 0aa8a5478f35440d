"""The spatial bias of LayoutLMv2 and LayoutLMv3.

Adds to each logit two trained numbers per head: one for the offset along columns, and
one for the offset along rows. Both are looked up in buckets, like those of T5. Nearby,
each offset has its own bucket; farther away, the edges are logarithmically spaced.

Formula: `bias[h, i, j] = (X[b(j_x - i_x), h] + Y[b(j_y - i_y), h]) / sqrt(head_dim)`.
Source: Xu et al. 2020, arXiv:2012.14740 (LayoutLMv2), section 2.1, and Huang et al.
2022, arXiv:2204.08387 (LayoutLMv3), section 2.1; buckets, scale and start as in the
authors' code (microsoft/unilm, modeling_layoutlmv2.py and modeling_layoutlmv3.py).
Sign: key minus query. Positions are (row, column), so y comes first.
Scale: paper and code of v2 add the two numbers to products that are already divided by
sqrt(head_dim). The code of v3 divides the numbers, too; `scaled` chooses.
Start: normal with standard deviation 0.02, as all linear layers of the released code.
Length: coordinates are thousandths of a page, whatever the number of tokens. So
`max_distance` does not follow the training length. On a grid, cells lie 1 apart.
Not done: the third table, for offsets in reading order. The paper of v2 takes the upper
left corner of a box, and the code its left and lower edges; here a token is a point.
"""

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Geometry,
    PairBias,
    Scheme,
    WholeBias,
    register,
)
from posenc_compare.transfer import to_device

STD = 0.02  # of the initial values


def bucket_edges(side: int, max_distance: int) -> list[int]:
    """Return the first distance of every bucket of one side.

    The first `e = side // 2` buckets hold one distance each. Bucket `e + i` begins at
    the smallest n with `(n / e) ** (side - e) >= (max_distance / e) ** i`, decided
    here in whole numbers.
    """
    exact = side // 2
    rest, edges = side - exact, list(range(exact + 1))
    for i in range(1, rest):
        first = edges[-1]
        while first**rest < max_distance**i * exact ** (rest - i):
            first += 1
        edges.append(first)
    return edges


@register(
    "layoutlm",
    family="bias",
    source="Xu et al. 2020, arXiv:2012.14740",
    axes=2,
    identities="along one row, `t5_bias` plus a constant",
    oracles="transformers 0",
    checked="papers, authors' code, transformers",
)
class LayoutLm(Scheme):
    """Add trained numbers per head and bucket of the offset along two axes.

    `2 * buckets * heads` parameters. One pair of tables serves all layers.

    Args:
        geometry: `heads` sets the columns of the tables.
        buckets: rows of each table, half of them for each direction.
        max_distance: distance at which the logarithmic scale ends, in positions. The
            last bucket begins before it, by default at 216.
        scaled: divide the bias by sqrt(head_dim), as LayoutLMv3 does and v2 does not.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        buckets: int = 64,
        max_distance: int = 256,
        scaled: bool = True,
    ) -> None:
        super().__init__(geometry)
        if buckets < 4 or buckets % 2:
            raise ConfigError(
                f"layoutlm: buckets must be even and at least 4, got {buckets}"
            )
        self.side = buckets // 2
        if max_distance <= self.side // 2:
            raise ConfigError(
                f"layoutlm: max_distance must exceed the {self.side // 2} exact "
                f"buckets, got {max_distance}"
            )
        self.max_distance, self.scaled = max_distance, scaled
        self.edges = bucket_edges(self.side, max_distance)
        self.rows, self.columns = (
            nn.Parameter(torch.randn(buckets, geometry.heads) * STD) for _ in range(2)
        )

    def buckets(self, offsets: Tensor) -> Tensor:
        """Return the bucket of every offset (key minus query)."""
        edges = to_device(torch.tensor(self.edges), offsets.device)
        bucket = torch.bucketize(offsets.abs(), edges, right=True) - 1
        return bucket + self.side * (offsets > 0)

    def pair_bias(self, call: Call) -> PairBias:
        what = f"buckets {self.side} {self.max_distance}"
        places = call.once(LayoutLm, what, call.q_positions, lambda: self._places(call))
        down, across = (place.expand(call.q.shape[0], -1, -1) for place in places)
        factor = call.q.shape[-1] ** -0.5 if self.scaled else 1.0
        # Autocast and half precision must not round the sum.
        wide = torch.promote_types(self.rows.dtype, torch.float32)
        rows, columns = (table.to(wide) * factor for table in (self.rows, self.columns))
        return WholeBias(
            lambda b, h, i, j: rows[down[b, i, j], h] + columns[across[b, i, j], h],
            lambda: (rows[places[0]] + columns[places[1]]).permute(0, 3, 1, 2),
        )

    def _places(self, call: Call) -> tuple[Tensor, Tensor]:
        """Return the buckets of all pairs along rows and along columns."""
        away = call.k_positions[:, None] - call.q_positions[:, :, None]
        return self.buckets(away[..., 0]), self.buckets(away[..., 1])
