"""Token-aware phase attention (TAPA).

Splits the channels of a head in two. The product over the first is the logit, and the
cosine of a phase multiplies it. The phase is the product over the other channels times
a power of the distance, so query and key decide how fast it turns.

Formula: logits `q_A k_A / sqrt(d_A) * cos(2 pi |i - j| ** a * q_P k_P / sqrt(d_P))`,
where A are `d_A = s d` of the d channels of a head, and P the other d_P.
Source: Wang et al. 2025, arXiv:2509.12635, equation 12; `a = 0.1` and `s = 0.5` are
those of section 4.1; of its two phases this is the quadratic one.
Channels: A are the first channels. Their number is rounded down, but is at least 1.
Direction: symmetric; only a causal mask separates the past from the future.
Each pair needs two products, so it runs on the execution path `plain`.
"""

import math

from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Geometry, Scheme, register


@register(
    "tapa",
    family="contextual",
    source="Wang et al. 2025, arXiv:2509.12635",
    real=True,
    identities="equal positions have a phase of 0",
    checked="paper (a copy of its text); no code was found",
)
class Tapa(Scheme):
    """Multiply logits by the cosine of a phase from tokens and distance.

    Has no parameters.

    Args:
        geometry: `head_dim` channels are split in two, so it must be at least 2.
        power: of the distance in the phase.
        share: of the channels that make the logit.
    """

    def __init__(
        self, geometry: Geometry, *, power: float = 0.1, share: float = 0.5
    ) -> None:
        super().__init__(geometry)
        if not power > 0:
            raise ConfigError(f"tapa: power must be greater than 0, got {power}")
        if not 0 < share < 1:
            raise ConfigError(f"tapa: share must be between 0 and 1, got {share}")
        if geometry.head_dim < 2:
            raise ConfigError(
                f"tapa: head_dim must be at least 2, got {geometry.head_dim}"
            )
        self.power = power
        self.amplitude_dims = max(1, int(share * geometry.head_dim))

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        cut = self.amplitude_dims
        q, k = call.q.to(logits.dtype), call.k.to(logits.dtype)
        amplitude = _scaled_products(q[..., :cut], k[..., :cut])
        phase = _scaled_products(q[..., cut:], k[..., cut:])
        turn = call.once(self, "turn", call.q_positions, lambda: self._turn(call))
        return amplitude * (phase * turn.to(logits.dtype)).cos()

    def _turn(self, call: Call) -> Tensor:
        """Return the angle of a phase of 1, `(batch or 1, 1, query, key)` float64."""
        distance = call.q_positions[:, :, None] - call.k_positions[:, None, :]
        return 2 * math.pi * distance.abs().double()[:, None] ** self.power


def _scaled_products(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT * q.shape[-1] ** -0.5
