"""T5's bucketed relative bias.

Adds to each logit a trained number per head, looked up by the bucket of the offset.
Nearby, each offset has its own bucket; farther away, the edges are logarithmically
spaced.

Formula: `bias[h, i, j] = table[bucket(j - i), h]`.
Source: Raffel et al. 2020, arXiv:1910.10683, section 2.1; bucket rule and scale from
the authors' released code (mesh_tensorflow, transformer_layers.py).
Direction: causal buckets put all keys in the future into bucket 0, as T5's decoder;
bidirectional gives them the upper half of the buckets, as T5's encoder.
Scale: products of query and key are not divided by sqrt(head_dim); T5 starts the
query projection smaller by that factor instead.
Length: the logarithmic scale ends at a distance of 128 in a network that reads 512
tokens. The last bucket begins before it.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, Published, Scheme, register
from posenc_compare.transfer import to_device


def bucket_edges(buckets: int, max_distance: int) -> list[int]:
    """Return the first distance of every bucket, in tokens.

    The first half of the buckets holds one distance each. With `e = buckets // 2`
    and `r = buckets - e`, bucket `e + i` begins at the smallest `n` with
    `(n / e) ** r >= (max_distance / e) ** i`, decided here in whole numbers.
    """
    exact = buckets // 2
    rest = buckets - exact
    edges = list(range(exact))
    first = exact
    for i in range(rest):
        while first**rest * exact**i < max_distance**i * exact**rest:
            first += 1
        edges.append(first)
    return edges


@register(
    "t5_bias",
    family="bias",
    source="Raffel et al. 2020, arXiv:1910.10683",
    identities="buckets equal exact fractions",
    oracles="transformers 0, x-transformers 0",
    checked="paper, authors' code",
)
class T5Bias(Scheme):
    """Add a trained number per bucket and head. `buckets * heads` parameters.

    One table serves all layers, as in T5.

    Args:
        geometry: `heads` sets the columns of the table.
        buckets: rows of the table; half of them for each side if bidirectional.
        max_distance: distance at which the logarithmic scale ends, in tokens. The last
            bucket begins before it. 0 means a quarter of the training length, 128 of
            512 in the paper, but no less than there are buckets for the past: 32 at a
            length of 64.
        bidirectional: tell the future from the past.
    """

    published: ClassVar = {"max_distance": Published(128, trained_at=512)}

    def __init__(
        self,
        geometry: Geometry,
        *,
        buckets: int = 32,
        max_distance: int = 0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(geometry)
        self.bidirectional = bidirectional
        self.side = buckets // 2 if bidirectional else buckets
        if self.side < 2 or (bidirectional and buckets % 2):
            raise ConfigError(
                f"t5_bias: buckets must be at least 2 a side and split evenly, "
                f"got {buckets}"
            )
        scaled = geometry.positions(self.published["max_distance"])
        max_distance = max_distance or max(scaled, self.side)
        if max_distance <= self.side // 2:
            raise ConfigError(
                f"t5_bias: max_distance must exceed the {self.side // 2} exact "
                f"buckets, got {max_distance}"
            )
        self.max_distance = max_distance
        self.edges = bucket_edges(self.side, max_distance)
        self.table = nn.Parameter(
            torch.randn(buckets, geometry.heads) * geometry.model_dim**-0.5
        )

    def scale(self, head_dim: int) -> float:
        return 1.0

    def query_init_gain(self, head_dim: int) -> float:
        return head_dim**-0.5

    def buckets(self, offsets: Tensor) -> Tensor:
        """Return the bucket of every offset (key minus query)."""
        edges = to_device(torch.tensor(self.edges), offsets.device)
        distance = offsets.abs() if self.bidirectional else (-offsets).clamp(min=0)
        bucket = torch.bucketize(distance, edges, right=True) - 1
        if self.bidirectional:
            bucket = bucket + self.side * (offsets > 0)
        return bucket

    def offset_bias(self, offsets: Tensor) -> Tensor:
        return self.table[self.buckets(offsets)].T
