"""Sandwich.

Adds to each logit the inner product of the sinusoids of query and key positions,
which is a sum of cosines of the distance; each head weighs it less than the one
before.

Formula: `bias[h, i, j] = H / (8 h) * sum_m cos((i - j) * base ** (-m / pairs))` for
heads h = 1 ... H.
Source: Chi et al. 2022, arXiv:2212.10356, from attention-gym and NeMo.
Indices: frequencies run over `m = 0 ... pairs - 1` in attention-gym, over
`m = 1 ... pairs` in NeMo, and the two are not the same after a softmax. From zero, the
bias is a Gram matrix of sinusoids.
NeMo also subtracts half the number of channels, `pairs`, before weighing, which
changes no softmax.
"""

from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, Scheme, register
from posenc_compare.schemes.shared.frequencies import inverse_frequencies


@register(
    "sandwich",
    family="bias",
    source="Chi et al. 2022, arXiv:2212.10356",
    real=True,
    oracles="attn-gym 8e-8",
    checked="paper not opened; unverified: the first frequency",
)
class Sandwich(Scheme):
    """Add a weighted sum of cosines of the distance. Has no parameters.

    Head `h = 1 ... heads` has the weight `heads / (8 h)`.

    Args:
        geometry: `heads` sets the weights.
        d_bar: width of the sinusoids, whatever that of the model is.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        indices: where the frequencies begin.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        d_bar: int = 128,
        base: float = 10_000.0,
        indices: Literal["from_zero", "from_one"] = "from_zero",
    ) -> None:
        super().__init__(geometry)
        if d_bar < 2 or d_bar % 2:
            raise ConfigError(
                f"sandwich: d_bar must be even and at least 2, got {d_bar}"
            )
        if not base > 0:
            raise ConfigError(f"sandwich: base must be greater than 0, got {base}")
        self.pairs = d_bar // 2
        self.base = base
        self.indices = indices

    def offset_bias(self, offsets: Tensor) -> Tensor:
        frequencies = inverse_frequencies(self.pairs, self.base, offsets.device)
        if self.indices == "from_one":
            frequencies = frequencies * self.base ** (-1 / self.pairs)
        cosines = (offsets.double()[:, None] * frequencies).cos().sum(dim=-1)
        heads = self.geometry.heads
        steps = torch.arange(1, heads + 1, device=offsets.device)
        return heads / (8 * steps[:, None].double()) * cosines
