"""Fourier position embedding (FoPE).

Rotates each pair of channels by a mixture of frequencies, different for every head,
and leaves out the frequencies that make no full turn within the training length.

Formula: pair m at position p is multiplied by
`sum_n C[h, n, m] cos(p w_n) + i sum_n S[h, n, m] sin(p w_n)`.
Source: Hua et al. 2024, arXiv:2412.17739, section 4, equations 11 to 13, and the
listing of appendix B; start values and shapes follow the authors' released code
(olmo/model.py), docs/schemes.md says where the three disagree.
Layout: `half` pairs channel i with i + d/2, as released; `adjacent` pairs (0, 1),
(2, 3), ... At most a quarter of the head's channels gets a mixture each, as released.
Convention: a mixture keeps neither norms nor the invariance under a shift.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.rotation import (
    Layout,
    pair_count,
    rotate,
    rotation_table,
)


def identity(inputs: int, outputs: int) -> Tensor:
    """Return `(input, output)`: output i reads input `i * ceil(inputs / outputs)`."""
    step = math.ceil(inputs / outputs)
    read = torch.arange(outputs) * step
    return (torch.arange(inputs)[:, None] == read).float()


@register(
    "fope",
    family="rotary",
    source="Hua et al. 2024, arXiv:2412.17739",
    real=True,
    identities="equals `rope` with identity tables, and `hope` with a floor as well",
    checked="paper, authors' code; they differ, see `pad`",
)
class Fope(Scheme):
    """Rotate by mixtures of frequencies. Two tables per head, frozen by default.

    `2 * heads * inputs * outputs` parameters.

    Args:
        geometry: `length` sets the slowest frequency, `head_dim` and `heads` the
            tables `(heads, input, output)`.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        gain: of the Xavier noise on the tables; released runs take 0.3, 0.4 and 0.6,
            growing with the network. 0 leaves each pair one frequency.
        learned: train the tables.
        floor: leave out the frequencies below `2 pi / length`; False keeps all, and
            every pair gets a mixture.
        pad: sine of the pairs left over, 0 as in the paper or 1 as released.
    """

    facts = Facts(per_layer=True, relative=False)

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "half",
        gain: float = 0.3,
        learned: bool = False,
        floor: bool = True,
        pad: Literal["paper", "official"] = "paper",
    ) -> None:
        super().__init__(geometry)
        self.pairs = pair_count("fope", geometry.head_dim)
        if gain < 0:
            raise ConfigError(f"fope: gain must be 0 or more, got {gain}")
        if floor and (geometry.length < 7 or geometry.head_dim < 4):
            raise ConfigError(
                f"fope: length must be at least 7 and head_dim 4 to leave one pair "
                f"above the floor, got {geometry.length} and {geometry.head_dim}"
            )
        self.base = base
        self.layout: Layout = layout
        lowest = 2 * math.pi / geometry.length if floor else 0.0
        self.rest = float(pad == "official")
        inv_freq = inverse_frequencies(self.pairs, self.base, torch.device("cpu"))
        # Frequencies fall, so those above the lowest come first.
        self.inputs = inputs = int((inv_freq >= lowest).sum())
        outputs = min(inputs, geometry.head_dim // 4) if floor else inputs
        shape = (geometry.heads, inputs, outputs)
        noise = [nn.init.xavier_normal_(torch.empty(shape), gain) for _ in range(2)]
        own = identity(inputs, outputs)
        self.sines = nn.Parameter(noise[0] + own, requires_grad=learned)
        self.cosines = nn.Parameter(noise[1] + own, requires_grad=learned)

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return self._rotated(q, positions)

    def key(self, k: Tensor, positions: Tensor) -> Tensor:
        return self._rotated(k, positions)

    def _rotated(self, x: Tensor, positions: Tensor) -> Tensor:
        table = rotation_table(self.phasors(positions), x.dtype, self.layout)
        return rotate(x, table, self.layout)

    def phasors(self, positions: Tensor) -> Tensor:
        """Return complex128 phasors, `(..., heads, seq, pair)`."""
        inv_freq = inverse_frequencies(self.pairs, self.base, positions.device)
        angle = positions[..., None].double() * inv_freq[: self.inputs]
        angle = angle[..., None, :, :]  # (..., 1, seq, input)
        cosine = angle.cos() @ self.cosines.double()
        sine = angle.sin() @ self.sines.double()
        left = (0, self.pairs - cosine.shape[-1])
        return torch.complex(
            nn.functional.pad(cosine, left, value=1.0),
            nn.functional.pad(sine, left, value=self.rest),
        )
