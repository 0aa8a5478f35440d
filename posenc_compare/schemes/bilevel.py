"""Bilevel positional encoding (BiPE).

A text is cut into segments, such as sentences. The scheme adds to each token a trained
vector for its place in the segment. Attention depends on the difference between the
segment numbers of two tokens.

Formula: `x_p + table[place]`, then RoPE (BiPE-RoPE) or ALiBi (BiPE-ALiBi) of segment
numbers: pairs rotate by `segment * base ** (-2 m / d)`, or a bias
`-steepness * m_h * |segment_i - segment_j|` with ALiBi's slopes m_h.
Source: He et al. 2024, arXiv:2401.16421, from the authors' released code
(zhenyuhe00/BiPE, my_modeling_llama_bipe_rope.py and ..._alibi.py); of the paper only
the beginning was read.
Axes: ids are (segment, place), with places from 0. In the code, either of two separator
tokens ends a segment; here the caller makes the ids.
Steepness: 96 times ALiBi's slopes, as in the code.
Layout: `half` pairs channel i with i + d/2, as in the code.
Direction: the code has a causal mask. ALiBi is symmetric here, as `alibi`.
Convention: places past the table are an error. For them, the code reads the last row of
its table, which has as many rows as a text has tokens (1024).
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    check_positions,
    register,
)
from posenc_compare.schemes.shared.frequencies import position_angles
from posenc_compare.schemes.shared.rotation import (
    Layout,
    pair_count,
    rotate,
    rotation_table,
)
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.transfer import to_device


@register(
    "bilevel",
    family="rotary",
    source="He et al. 2024, arXiv:2401.16421",
    axes=2,
    identities="in the layers it is `rope:layout=half` or `alibi` of the segments; "
    "places change no logit",
    checked="authors' code, and the beginning of the paper",
)
class Bilevel(Scheme):
    """Add a vector per place in a segment; RoPE or ALiBi between segments.

    `places * model_dim` parameters.

    Args:
        geometry: `model_dim` is the width of the table, `length` its default rows;
            `head_dim` is for RoPE, `heads` for ALiBi.
        between: the scheme of segment numbers.
        places: rows of the table; 0 means the geometry's length.
        base: of RoPE; wavelengths run to nearly 2 pi times this, in segments.
        layout: of RoPE; which two channels make a pair.
        steepness: of ALiBi; multiplies the slopes.
        std: standard deviation of the initial table.
    """

    facts = Facts(relative=False)

    def __init__(
        self,
        geometry: Geometry,
        *,
        between: Literal["rope", "alibi"] = "rope",
        places: int = 0,
        base: float = 10_000.0,
        layout: Layout = "half",
        steepness: float = 96.0,
        std: float = 0.02,
    ) -> None:
        super().__init__(geometry)
        if places < 0:
            raise ConfigError(f"bilevel: places must be at least 1, got {places}")
        for name, value in (("steepness", steepness), ("std", std)):
            if not 0 <= value < math.inf:
                raise ConfigError(f"bilevel: {name} must be 0 or more, got {value}")
        self.layout: Layout = layout
        self.base, self.turns = base, between == "rope"
        self.pairs = pair_count("bilevel", geometry.head_dim) if self.turns else 0
        self.slopes = [steepness * slope for slope in slopes(geometry.heads)]
        self.table = nn.Parameter(
            torch.randn(places or geometry.length, geometry.model_dim) * std
        )

    def acts_at(self, hook: str, /) -> bool:
        idle = ("pair_bias",) if self.turns else ("query", "key")
        return hook not in idle and super().acts_at(hook)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        rows, width = self.table.shape
        if x.shape[-1] != width:
            raise ShapeError(
                f"bilevel: the width must be {width}, as the table's, got {x.shape[-1]}"
            )
        place = positions[..., 1]
        check_positions(self.name, place, rows)
        return x + self.table[place].to(x.dtype)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._turned(q, positions, call)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._turned(k, positions, call)

    def _turned(self, x: Tensor, positions: Tensor, call: Call | None) -> Tensor:
        if not self.turns:
            return x

        def made() -> Tensor:
            angles = position_angles(positions[..., 0], self.pairs, self.base)
            phasors = torch.polar(torch.ones_like(angles), angles)[..., None, :, :]
            return rotation_table(phasors, x.dtype, self.layout)

        if call is None:
            return rotate(x, made(), self.layout)
        table = call.once(self, f"turns for {x.dtype}", positions, made)
        return rotate(x, table, self.layout)

    def pair_bias(self, call: Call) -> PairBias | None:
        if self.turns:
            return None
        batch = call.q.shape[0]
        slope = to_device(torch.tensor(self.slopes, dtype=torch.float64), call.q.device)
        queries = call.q_positions[..., 0].expand(batch, -1)
        keys = call.k_positions[..., 0].expand(batch, -1)
        return lambda b, h, i, j: -slope[h] * (queries[b, i] - keys[b, j]).abs()
