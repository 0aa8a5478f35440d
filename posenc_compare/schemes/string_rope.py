"""STRING, shifted rotary position embedding.

Rotates as RoPE does up to a distance; beyond it, distances begin again at a small
window, so that those that training has shown seldom are not read at all.

Formula: RoPE's logit at distance `r < shift`, else at `r - shift + window`.
Source: An et al. 2024, arXiv:2410.18745, equation 4, after notes on it and the
released code, HKUNLP/STRING (string_for_llama.py, string_for_qwen2.py, README).
Direction: causal.
Convention: the code's shifted_offset and small_local_value.
Departs: reading a prompt, the released code counts a key at distance `shift` in both
of its parts; decoding, it counts it once, as here. It also multiplies cosines and sines
by `1 + 0.1 log(2)`, which is `sharpened`.
It is meant for evaluating a network within its training length; training with it, and
the longer texts of `schemes_for_length`, are our extensions. Each pair needs two
products, so it runs on the execution path `plain`.
"""

import math
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Geometry, Published, Scheme, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant

SHARPNESS = 1 + 0.1 * math.log(2)  # of cosines and sines


@register(
    "string_rope",
    family="rotary",
    source="An et al. 2024, arXiv:2410.18745",
    real=True,
    identities="equals `rope` with a shift beyond the text, or with `window` equal to "
    "`shift`",
    checked="authors' code, paper not opened; see `sharpened`",
)
class StringRope(Wrapper):
    """Rotate by the relative position, shifted where it is far. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated; `length` is that of training.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        shift: first distance that is shifted; 0 means a third of the training length,
            43253 of 131072 in the code's README.
        window: what that distance is read as, at most `shift`; 0 means 1/16 of the
            training length. The paper has 128 for networks of 2048 to 131072 positions.
        sharpened: multiply all products of query and key as the released code does.
    """

    published: ClassVar = {
        "shift": Published(43_253, trained_at=131_072),
        "window": Published(128, trained_at=2048),
    }

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        shift: int = 0,
        window: int = 0,
        sharpened: bool = False,
    ) -> None:
        if shift < 0:
            raise ConfigError(f"string_rope: shift must be at least 0, got {shift}")
        inner = Variant("rope", {"base": base, "layout": layout})
        super().__init__(geometry, inner.build(geometry))
        self.shift = shift or geometry.positions(self.published["shift"])
        self.window = window or geometry.positions(self.published["window"])
        self.sharpened = sharpened
        if not 0 < self.window <= self.shift:
            raise ConfigError(
                f"string_rope: window must be from 0 to shift={self.shift}, "
                f"got {self.window}"
            )
        self.facts = replace(self.facts, causal_only=True)

    def scale(self, head_dim: int) -> float:
        return super().scale(head_dim) * (SHARPNESS**2 if self.sharpened else 1.0)

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        q_far, near = call.once(self, "far", call.q_positions, lambda: self._far(call))
        q = super().query(call.q, q_far, call)
        k = super().key(call.k, call.k_positions, call)
        far = q.to(logits.dtype) @ k.to(logits.dtype).mT * self.scale(q.shape[-1])
        return torch.where(near, logits, far)

    def _far(self, call: Call) -> tuple[Tensor, Tensor]:
        """Return where far pairs read queries, and which pairs are near."""
        past = call.q_positions[:, :, None] - call.k_positions[:, None, :]
        return (
            call.q_positions - self.shift + self.window,
            (past < self.shift)[:, None],
        )

    def schemes_for_length(self, length: int) -> dict[str, Scheme]:
        """Return it with the smallest shift that suffices, if it needs another."""
        trained = self.geometry.length
        needed = length - trained + self.window
        if length <= trained or needed > trained or needed <= self.shift <= trained:
            return {}
        other = deepcopy(self)
        other.shift = needed
        return {self.name: other}
