"""Untied positional encoding (TUPE).

Compares positions apart from tokens: each position has a trained vector, and a product
of two projections of them is added to the logits, the same in all layers. Nothing is
added to tokens.

Formula: logits `q_i k_j / sqrt(2 d) + (U n(p_i)) (V n(p_j)) / sqrt(2 d)`, where p are
trained vectors, n is a LayerNorm, and U and V project to the heads.
Source: Ke et al. 2020, arXiv:2006.15595, from the authors' released code
(guolinke/TUPE, transformer_sentence_encoder.py); the formula is that of TUPE-A.
Scale: both products are divided by the root of twice the width of a head.
Relative: TUPE-R adds T5's bias, here `relative=(t5_bias:bidirectional=true)`, as in the
code; without a future, `relative=t5_bias`. Any other bias of the offset will do.
Layers: table, norm, projections and relative bias are shared by all layers.
Start: table and projections are normal with a standard deviation of 0.02, biases 0.
Left out: the code replaces the positional products of the first token, [CLS], by two
trained numbers for each head. Texts have no such token here.
Convention: positions past the table are an error, never wrapped or clamped.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    HOOKS,
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    WholeBias,
    check_axes,
    check_positions,
    register,
)
from posenc_compare.schemes.shared.layers import apply_wide
from posenc_compare.variants import Variant

STD = 0.02  # of the initial table and projections


@register(
    "tupe",
    family="bias",
    source="Ke et al. 2020, arXiv:2006.15595",
    checked="authors' code, paper not opened",
)
class Tupe(Scheme):
    """Add products of trained vectors of the two positions, by head.

    `(length + 2) * model_dim + 2 * (model_dim + 1) * heads * head_dim` parameters.

    Args:
        geometry: `length` vectors of `model_dim` channels, projected to the heads.
        length: rows of the table; 0 means the geometry's length.
        relative: a scheme whose bias of the offset is added as well.
    """

    facts = Facts(relative=False)

    def __init__(
        self,
        geometry: Geometry,
        *,
        length: int = 0,
        relative: Variant = Variant("nope"),
    ) -> None:
        super().__init__(geometry)
        if length < 0:
            raise ConfigError(f"tupe: length must be at least 1, got {length}")
        self.offsets: Scheme = relative.build(geometry)
        check_axes(self.offsets)
        hooks = {hook for hook in HOOKS if self.offsets.acts_at(hook)}
        if hooks - {"offset_bias", "scale"}:
            raise ConfigError(
                f"tupe: relative must be a scheme that adds a bias of the offset and "
                f"nothing else, got {relative.label!r}"
            )
        self.facts = replace(self.offsets.facts, relative=False, real=False)
        width, inner = geometry.model_dim, geometry.heads * geometry.head_dim
        self.table = nn.Parameter(torch.randn(length or geometry.length, width) * STD)
        self.norm = nn.LayerNorm(width)
        self.to_queries = nn.Linear(width, inner)
        self.to_keys = nn.Linear(width, inner)
        for layer in (self.to_queries, self.to_keys):
            nn.init.normal_(layer.weight, std=STD)
            nn.init.zeros_(layer.bias)

    def scale(self, head_dim: int) -> float:
        return (2 * head_dim) ** -0.5

    def offset_bias(self, offsets: Tensor) -> Tensor | None:
        return self.offsets.offset_bias(offsets)

    def pair_bias(self, call: Call) -> PairBias:
        queries = self._projected(self.to_queries, call.q_positions)
        keys = self._projected(self.to_keys, call.k_positions)
        bias = queries @ keys.mT * self.scale(self.geometry.head_dim)
        bias = bias.expand(call.q.shape[0], -1, -1, -1)
        return WholeBias(lambda b, h, i, j: bias[b, h, i, j], lambda: bias)

    def _projected(self, layer: nn.Linear, positions: Tensor) -> Tensor:
        """Return `(batch or 1, heads, seq, head_dim)` float32 or wider."""
        check_positions(self.name, positions, len(self.table))
        table = self.table.to(torch.promote_types(self.table.dtype, torch.float32))
        norm = self.norm
        weight, bias = norm.weight.to(table.dtype), norm.bias.to(table.dtype)
        normed = F.layer_norm(table, norm.normalized_shape, weight, bias, norm.eps)
        made = apply_wide(layer, normed).unflatten(-1, (self.geometry.heads, -1))
        return made[positions].transpose(1, 2)
