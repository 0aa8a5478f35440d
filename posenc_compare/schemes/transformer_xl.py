"""Transformer-XL's relative encoding.

The key is compared with the query once by content and once by distance: the distance
speaks through a trained projection of its sinusoids, and two trained vectors stand in
for the query's own position.

Formula: logits `((q_i + u) k_j + (q_i + v) W r(i - j)) / sqrt(d)`.
Source: Dai et al. 2019, arXiv:1901.02860, section 3.3; layout, clamping and initial
values from the authors' released code (mem_transformer.py, train.py).
Layout: sinusoids of query minus key over model_dim channels, all sines first.
Direction: distances are signed, so both directions work; the paper is causal.
Layers: here each has u and v of its own; the paper shares them between layers, and
only the projection is each layer's.
"""

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    gather_bias,
    register,
)
from posenc_compare.schemes.shared.distinct import distinct
from posenc_compare.schemes.shared.frequencies import position_angles
from posenc_compare.schemes.shared.layers import apply_wide

STD = 0.02  # of all initial values


@register(
    "transformer_xl",
    family="contextual",
    source="Dai et al. 2019, arXiv:1901.02860",
    real=True,
    identities="equals `nope` if u, v and the projection are 0",
    oracles="transformers 2e-7",
    checked="paper, authors' code",
)
class TransformerXl(Scheme):
    """Logits `(q + u) k + (q + v) W r`, with r the sinusoids of the distance.

    `model_dim * heads * head_dim + 2 * heads * head_dim` parameters.

    Args:
        geometry: `model_dim` channels of sinusoids; heads and head_dim.
        clamp: distance in tokens from which all are alike; 0 for none.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self, geometry: Geometry, *, clamp: int = 0, base: float = 10_000.0
    ) -> None:
        super().__init__(geometry)
        width, heads = geometry.model_dim, geometry.heads
        if width % 2:
            raise ConfigError(f"transformer_xl: model_dim must be even, got {width}")
        if clamp < 0:
            raise ConfigError(f"transformer_xl: clamp must be 0 or more, got {clamp}")
        self.clamp = clamp
        self.base = base
        self.u = nn.Parameter(torch.randn(heads, 1, geometry.head_dim) * STD)
        self.v = nn.Parameter(torch.randn(heads, 1, geometry.head_dim) * STD)
        self.project = nn.Linear(width, heads * geometry.head_dim, bias=False)
        nn.init.normal_(self.project.weight, std=STD)

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return (q + self.u).to(q.dtype)

    def pair_bias(self, call: Call) -> PairBias:
        wide = torch.promote_types(call.q.dtype, torch.float32)
        what = f"waves in {wide} {self.clamp} {self.base} {self.geometry.model_dim}"
        waves, place = call.once(
            TransformerXl, what, call.q_positions, lambda: self._waves(call, wide)
        )
        rows = apply_wide(self.project, waves).to(wide)  # (step, head * d)
        rows = rows.unflatten(-1, (self.geometry.heads, -1)).permute(1, 2, 0)
        products = (call.q.to(wide) + self.v.to(wide)) @ rows  # (..., query, step)
        products = products * self.scale(call.q.shape[-1])
        return gather_bias(products, place)

    def _waves(self, call: Call, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return the sinusoids of all distances, and where each pair finds its own."""
        distance = call.q_positions[:, :, None] - call.k_positions[:, None, :]
        if self.clamp:
            distance = distance.clamp(-self.clamp, self.clamp)
        steps, place = distinct(distance)
        angle = position_angles(steps, self.geometry.model_dim // 2, self.base)
        return torch.cat([angle.sin(), angle.cos()], dim=-1).to(dtype), place
