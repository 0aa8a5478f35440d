"""Mixed-radix rotary position embedding (MrRoPE).

Rotates as RoPE does in training. For a longer text, fast pairs of channels keep their
frequency, slow ones are slowed by the whole factor, and those between by powers of it
that grow from pair to pair.

Formula: pair i rotates by `p * base ** (-2 i / d) / F ** e`, `t = clip(i - lo, 0, n)`;
`e = t / n` if kind=uni, `t (t + 1) / (n (n + 1))` if pro. lo is the last pair with 32
turns or more in training; lo + n, at most d - 1, is the first with no more than one.
F is the length of the text over that of training, and d is head_dim.
Scale: cosines and sines are multiplied by `1 + 0.1 ln F`, as in YaRN.
Source: Tian et al. 2026, arXiv:2601.22181. The rule is that of
mattian7/mrRoPE (LlamaYaRNRadix.py, yarn_radix and yarn_radix3); two reproductions that
cite equations 13 to 16, 26 and section 3.2 agree.
Bounds: without a pair of 32 turns, lo is the fastest pair; without one of a single
turn, lo + n is the place beyond the last where it would be. Both are as in the code. If
no pair makes a turn, n is 1 here.
Layout: `half` pairs channel i with i + d/2, `adjacent` pairs (0, 1), (2, 3), ...
Length: 32 turns need 202 positions. Trained at 64, only the fastest pair keeps its
frequency, and five of eight pairs, or 23 of 32, are slowed by the whole factor.
"""

import math
from copy import deepcopy
from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, Scheme, register
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.rotation import Rotation, pair_count


@register(
    "mr_rope",
    family="rotary",
    source="Tian et al. 2026, arXiv:2601.22181",
    real=True,
    identities="a factor of 1 is `rope`; fast pairs stay, slow ones are divided by "
    "the factor",
    checked="public code, two reproductions agree, paper not opened; unverified: "
    "whose code it is, and what the paper does if no pair makes 32 turns, or one",
)
class MrRope(Rotation):
    """Rotate as RoPE, and slower for texts beyond training. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated; `length` is that of training.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        kind: uni slows by equal steps from pair to pair, pro by growing ones.
        factor: how many times the training length may be read; 1 is RoPE.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        kind: Literal["uni", "pro"] = "pro",
        factor: float = 1.0,
    ) -> None:
        super().__init__(geometry, base, layout)
        self.pairs = pair_count("mr_rope", geometry.head_dim)
        if not base > 1:
            raise ConfigError(f"mr_rope: base must be greater than 1, got {base}")
        if not factor >= 1:
            raise ConfigError(f"mr_rope: factor must be at least 1, got {factor}")
        self.kind: Literal["uni", "pro"] = kind
        self.factor = factor

    @property
    def attention_factor(self) -> float:
        return 1 + 0.1 * math.log(self.factor)

    def angles(self, positions: Tensor) -> Tensor:
        inv_freq = inverse_frequencies(self.pairs, self.base, positions.device)
        first = max(math.floor(self._pair_with(32)), 0)
        last = min(math.ceil(self._pair_with(1)), self.geometry.head_dim - 1)
        steps = max(last - first, 1)
        pair = torch.arange(self.pairs, dtype=torch.float64, device=inv_freq.device)
        step = (pair - first).clamp(0, steps)
        exponent = step / steps
        if self.kind == "pro":
            exponent = exponent * (step + 1) / (steps + 1)
        return positions[..., None].double() * (inv_freq / self.factor**exponent)

    def schemes_for_length(self, length: int) -> dict[str, Scheme]:
        if self.factor != 1 or length <= self.geometry.length:
            return {}
        other = deepcopy(self)
        other.factor = length / self.geometry.length
        return {"mr_rope": other}

    def _pair_with(self, turns: int) -> float:
        """Return, as a real number, the pair with so many turns in training."""
        wavelength = self.geometry.length / turns
        return self.pairs * math.log(wavelength / (2 * math.pi)) / math.log(self.base)
