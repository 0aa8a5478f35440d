"""DeBERTa's disentangled attention.

Content and position are compared crosswise: the query with a trained vector of the
clipped distance, and the key with another.

Formula: logits `(q_i k_j + q_i K(i - j) + k_j Q(i - j)) / sqrt(3 d)`, where K and Q
are the key and query projections of a table of distances.
Source: He et al. 2020, arXiv:2006.03654, section 3.1, equations 3 and 4; the second
index convention and the log buckets from the authors' released code
(disentangled_attention.py, da_utils.py). Initial values are BERT's.
Sign: distances are query minus key, shifted by the span, clipped to 0 ... 2 span - 1.
Index: for the key's term the paper looks up key minus query, the released code (and
transformers) query minus key; `p2c_index` chooses.
Scale: all three products are divided by sqrt(3 head_dim). The released code adds a
bias to the key projection; the paper and this scheme have none. Here each layer has a
table of its own; the paper shares it between layers.
Length: the paper's reach is 512 (section 3.1.1) and so is its training length; the
released configurations with 256 log buckets also set it to the training length.
"""

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Published,
    Scheme,
    WholeBias,
    gather_bias,
    register,
)
from posenc_compare.schemes.shared.distinct import distinct
from posenc_compare.schemes.shared.layers import apply_wide
from posenc_compare.transfer import to_device

STD = 0.02  # of all initial values


def bucket_edges(buckets: int, reach: int) -> list[int]:
    """Return the last distance of the buckets `0 ... buckets - 1`, in tokens.

    Up to `middle = buckets // 2` a bucket holds one distance. From there, distance n
    is in bucket `middle + ceil(log(n / middle) / log((reach - 1) / middle) *
    (middle - 1))`, decided here in whole numbers.
    """
    middle = buckets // 2
    steps, last = middle - 1, reach - 1
    edges = list(range(middle))
    n = middle
    for i in range(middle):
        while (n + 1) ** steps * middle**i <= last**i * middle**steps:
            n += 1
        edges.append(n)
    return edges


@register(
    "deberta",
    family="contextual",
    source="He et al. 2020, arXiv:2006.03654",
    identities="buckets equal exact fractions",
    oracles="transformers 2e-7",
    checked="paper, authors' code; they differ, see `p2c_index`",
)
class Deberta(Scheme):
    """Compare queries, and keys, with trained vectors of the clipped distance.

    Args:
        geometry: `model_dim` is the width of the table.
        reach: distance in tokens from which all share a row; 0 means the training
            length, 512 of 512 in the paper.
        buckets: rows on either side if distances beyond half of them are put into
            buckets that grow logarithmically, up to `reach` (DeBERTa v2: 256); 0
            for a row per distance.
        p2c_index: which distance the key's term looks up.
    """

    facts = Facts(per_layer=True)
    published: ClassVar = {"reach": Published(512, trained_at=512)}

    def __init__(
        self,
        geometry: Geometry,
        *,
        reach: int = 0,
        buckets: int = 0,
        p2c_index: Literal["code", "paper"] = "code",
    ) -> None:
        super().__init__(geometry)
        if reach < 0:
            raise ConfigError(f"deberta: reach must be 0 or more, got {reach}")
        reach = reach or geometry.positions(self.published["reach"])
        if buckets and (buckets < 4 or buckets % 2 or buckets // 2 + 1 >= reach):
            raise ConfigError(
                f"deberta: buckets must be even, at least 4 and less than twice "
                f"{reach - 1}, got {buckets}"
            )
        self.edges = bucket_edges(buckets, reach) if buckets else []
        self.reach = reach
        self.span = buckets or reach
        self.p2c_index = p2c_index
        width, inner = geometry.model_dim, geometry.heads * geometry.head_dim
        self.table = nn.Parameter(torch.randn(2 * self.span, width) * STD)
        self.to_keys = nn.Linear(width, inner, bias=False)
        self.to_queries = nn.Linear(width, inner, bias=False)
        for layer in (self.to_keys, self.to_queries):
            nn.init.normal_(layer.weight, std=STD)

    def scale(self, head_dim: int) -> float:
        return (3 * head_dim) ** -0.5

    def rows(self, distances: Tensor) -> Tensor:
        """Return the row of the table for every distance (query minus key)."""
        steps = distances
        if self.edges:
            edges = to_device(torch.tensor(self.edges), distances.device)
            steps = torch.bucketize(distances.abs(), edges) * distances.sign()
        return (steps + self.span).clamp(0, 2 * self.span - 1)

    def pair_bias(self, call: Call) -> PairBias:
        used, row = self._looked_up(call, 1)
        to_row = self._products(call.q, used, self.to_keys)
        used, column = self._looked_up(call, 1 if self.p2c_index == "code" else -1)
        to_column = self._products(call.k, used, self.to_queries)
        on_q, on_k = gather_bias(to_row, row), gather_bias(to_column, column.mT)
        of_q, of_k = on_q.one, on_k.one
        return WholeBias(
            lambda b, h, i, j: of_q(b, h, i, j) + of_k(b, h, j, i),
            lambda: on_q.whole() + on_k.whole().mT,
        )

    def _looked_up(self, call: Call, sign: int) -> tuple[Tensor, Tensor]:
        """Return rows that may occur, and where pairs find theirs, for all layers.

        Args:
            call: the attention call.
            sign: 1 for query minus key, -1 for key minus query.
        """

        def made() -> tuple[Tensor, Tensor]:
            distance = call.q_positions[:, :, None] - call.k_positions[:, None, :]
            return distinct(self.rows(sign * distance))

        what = f"rows {sign} {self.reach} {self.span} {len(self.edges)}"
        return call.once(Deberta, what, call.q_positions, made)

    def _products(self, x: Tensor, used: Tensor, layer: nn.Linear) -> Tensor:
        """Return products with rows of the table, `(batch, heads, seq, row)`."""
        wide = torch.promote_types(x.dtype, torch.float32)
        vectors = apply_wide(layer, self.table[used]).to(wide)
        vectors = vectors.unflatten(-1, (self.geometry.heads, -1)).permute(1, 2, 0)
        return x.to(wide) @ vectors * self.scale(x.shape[-1])
