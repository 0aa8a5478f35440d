"""YaRN with the freedoms that released configurations use.

Rotates queries and keys as RoPE does, fast pairs of channels as they were trained and
slow ones slower by a factor, so that a longer text turns them no further.

Formula: pair m rotates by `p * f * (k + (1 - k) / factor)`, `f = base ** (-2 m / d)`.
k is 1 up to pair `i(beta)` and 0 from pair `i(alpha)` on, linear between them, where
`i(r) = d / 2 * log_base(original / (2 pi r))`. Cosines and sines are multiplied by
`attention`, as published `0.1 ln(factor) + 1`.
Source: Peng et al. 2023, arXiv:2309.00071, sections 3.2 to 3.4; `truncate` and
`attention` as in transformers (modeling_rope_utils).
Layout: half pairs channel i with i + d/2, adjacent the channels (0, 1), (2, 3), ...
With truncate, i(beta) is rounded down and i(alpha) up, as the authors' code does; that
is `rope:scaling=yarn`. GPT-OSS does not round. DeepSeek sets `attention` to 1, and
multiplies all logits instead.
"""

from typing import Literal

from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, register
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.rotation import Rotation, pair_count
from posenc_compare.schemes.shared.scaling import Scaling


@register("rope_yarn", family="rotary", source="Peng et al. 2023, arXiv:2309.00071")
class RopeYarn(Rotation):
    """Rotate as RoPE, slow pairs slower by a factor. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        fraction: share of each head's channels that are rotated, in (0, 1].
        factor: how many times the original length may be read, at least 1; 1 is RoPE.
        original: positions that were trained; 0 means the geometry's length.
        alpha: rotations within the original length up to which a pair is slowed by
            the whole factor.
        beta: rotations from which a pair keeps its frequency.
        truncate: whether the passage between them begins and ends at whole pairs.
        attention: factor of cosines and sines; 0 means as published.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        fraction: float = 1.0,
        factor: float = 4.0,
        original: int = 0,
        alpha: float = 1.0,
        beta: float = 32.0,
        truncate: bool = False,
        attention: float = 0.0,
    ) -> None:
        super().__init__(geometry, base, layout)
        if fraction == 1:
            pair_count(self.name, geometry.head_dim)
        rotated = round(geometry.head_dim * fraction)
        if not 0 < fraction <= 1 or rotated < 2 or rotated % 2:
            raise ConfigError(
                f"{self.name}: fraction must be in (0, 1] and rotate whole pairs of "
                f"{geometry.head_dim} channels, got {fraction}"
            )
        self.pairs = rotated // 2
        self.scaling = Scaling(
            self.name,
            "yarn",
            original or geometry.length,
            factor,
            alpha,
            beta,
            truncate=truncate,
            attention=attention,
        )

    @property
    def attention_factor(self) -> float:
        return self.scaling.attention_factor

    def angles(self, positions: Tensor) -> Tensor:
        inv_freq = inverse_frequencies(self.pairs, self.base, positions.device)
        inv_freq = self.scaling.inv_freq(inv_freq, self.base)
        return positions[..., None].double() * inv_freq
