"""Rectified rotary position embedding (ReRoPE).

Rotates as RoPE does up to a window; beyond it the relative position stands still, or
grows more slowly if it leaks, so that no angle is larger than training has shown.

Formula: RoPE's logit at `r < window`, else at `window + leak * (r - window)`.
Source: Su 2023, github.com/bojone/rerope (rerope_patch.py, leaky_rerope_patch.py); a
repository and a blog, no paper.
Direction: causal; the released code takes `window` for far keys on both sides.
Convention: the code's scaling_factor is 1 / leak. `stretched` multiplies queries by
`max(1, log(position + 1) / log(length))`, as the code does on top of the idea; it
makes the logits depend on the absolute position.
It is meant for evaluating networks trained with RoPE; training with it is our
extension. Each pair needs two products, so it runs on the execution path `plain`.
"""

import math
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Geometry, Published, Scheme, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


@register(
    "rerope",
    family="rotary",
    source="Su 2023, github.com/bojone/rerope",
    real=True,
    identities="equals `rope` with a window as long as the text",
    checked="authors' code; no paper",
)
class Rerope(Wrapper):
    """Rotate by the relative position, held at a window. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated; `length` is that of training.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        window: first relative position that is held; 0 means a quarter of the
            training length, 1024 of 4096 in the repository's results.
        leak: growth per position beyond the window, from 0 to 1.
        stretched: let queries grow with the logarithm of their position.
    """

    published: ClassVar = {"window": Published(1024, trained_at=4096)}

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        window: int = 0,
        leak: float = 0.0,
        stretched: bool = False,
    ) -> None:
        if window < 0:
            raise ConfigError(f"rerope: window must be at least 0, got {window}")
        if not 0 <= leak <= 1:
            raise ConfigError(f"rerope: leak must be from 0 to 1, got {leak}")
        if stretched and geometry.length < 2:
            raise ConfigError(
                f"rerope: stretched needs a length of at least 2, got {geometry.length}"
            )
        inner = Variant("rope", {"base": base, "layout": layout})
        super().__init__(geometry, inner.build(geometry))
        self.window = window or geometry.positions(self.published["window"])
        self.leak = leak
        self.stretched = stretched
        self.facts = replace(self.facts, causal_only=True, relative=not stretched)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._stretch(super().query(q, positions, call), positions)

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        q_far, k_far, near = call.once(
            self, "far", call.q_positions, lambda: self._far(call)
        )
        q = super().query(call.q, q_far, call)
        k = super().key(call.k, k_far, call)
        q = self._stretch(q, call.q_positions).to(logits.dtype)
        far = q @ k.to(logits.dtype).mT * self.scale(q.shape[-1])
        return torch.where(near, logits, far)

    def _far(self, call: Call) -> tuple[Tensor, Tensor, Tensor]:
        """Return where far pairs read queries and keys, and which pairs are near."""
        held = self.window * (1 - self.leak)
        past = call.q_positions[:, :, None] - call.k_positions[:, None, :]
        return (
            self.leak * call.q_positions.double() + held,
            self.leak * call.k_positions.double(),
            (past < self.window)[:, None],
        )

    def schemes_for_length(self, length: int) -> dict[str, Scheme]:
        return {}

    def _stretch(self, q: Tensor, positions: Tensor) -> Tensor:
        if not self.stretched:
            return q
        length = self.geometry.length
        growth = positions.clamp(min=0).double().log1p() / math.log(length)
        return (q * growth.clamp(min=1)[..., None, :, None]).to(q.dtype)
