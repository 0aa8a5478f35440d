"""RoPE++: heads that read the imaginary part of RoPE's product.

RoPE's logit is the real part of a complex product of query and key. Half of the heads
use the imaginary part of the product of the other half. Averaged over contents, the
imaginary part decays more slowly with the distance.

Formula: head h of the first half is RoPE's; head h + H/2 has the logit
`Im(sum q_m conj(k_m) exp(i (p - r) f_m)) / sqrt(d)` of the same query and key. Of an
odd number of heads the middle one is RoPE's alone.
Source: Liu et al. 2025, arXiv:2512.07525, as RoPE++_EH, from the authors' released
code (modeling_llama_rope_pp.py).
Order: real heads come first, then the imaginary ones; released, each imaginary head
follows its real one.
Parameters: released, half of the projections of queries, keys and values are left out.
Here a network keeps them, does not use those of queries and keys, and every head has
values of its own. With queries of its own a head would gain nothing: a quarter turn is
a matrix, which its projection can hold.
Layout: `half` pairs channel i with i + d/2, `adjacent` pairs (0, 1), (2, 3), ...
"""

from typing import Literal

import torch
from torch import Tensor

from posenc_compare.schemes.scheme import Call, Facts, Geometry, register
from posenc_compare.schemes.shared.frequencies import position_angles
from posenc_compare.schemes.shared.rotation import Rotation, pair_count


@register(
    "rope_pp",
    family="rotary",
    source="Liu et al. 2025, arXiv:2512.07525",
    real=True,
    identities="keys shared by groups of heads give the same result as repeated keys",
    checked="authors' code, paper not opened; here values are each head's own",
)
class RopePp(Rotation):
    """Rotate as RoPE, and let half of the heads read the imaginary part.

    Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated, in `heads` heads.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
    """

    facts = Facts(mixes_heads=True)
    per_head = True

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
    ) -> None:
        super().__init__(geometry, base, layout)
        self.pairs = pair_count("rope_pp", geometry.head_dim)
        self.real = (geometry.heads + 1) // 2

    def angles(self, positions: Tensor) -> Tensor:
        angles = position_angles(positions, self.pairs, self.base)
        return angles[..., None, :, :]  # of all heads, but for a quarter turn

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        imaginary = q[:, : q.shape[1] - self.real]
        return torch.cat(
            [
                self.rotated(q[:, : self.real], positions, call, self.phasors),
                self.rotated(imaginary, positions, call, self.turned_back),
            ],
            dim=1,
        )

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        real = super().key(k[:, : self.real], positions, call)
        return torch.cat([real, real[:, : k.shape[1] - self.real]], dim=1)

    def turned_back(self, positions: Tensor) -> Tensor:
        """Return the phasors of the queries whose real part is the imaginary one."""
        return self.phasors(positions) * -1j
