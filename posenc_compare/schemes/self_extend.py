"""Self-Extend.

Rotates as RoPE does up to a window; beyond it, positions are counted in groups of
neighbours, so that a longer text is read at angles that training has shown.

Formula: of query i and key j, RoPE's logit at `i - j < window`; else that of a query at
`i // group + window - window // group` and a key at `j // group`.
Source: Jin et al. 2024, arXiv:2401.01325, from the released code, LongLM
(self_extend_patch, README).
Direction: causal.
Convention: the code's group_size_1 and group_size_2. Its Llama.py and Gemma.py lift
queries by a real number, `window - window / group`. Its Mistral.py, Qwen2.py and Phi.py
round the quotient down, as here; Llama_4_40.py does so in part, as a fix. Where group
divides window all agree.
Length: 1024 is also the default of the code's Llama.py and Gemma.py, for any model.
Left out: the code's scale_base, which is off unless asked for.
Groups begin at multiples of `group`, so logits are no function of the distance alone.
It is meant for evaluating networks trained with RoPE; training with it is our
extension. Each pair needs two products, so it runs on the execution path `plain`.
"""

from copy import deepcopy
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Geometry, Published, Scheme, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant


@register(
    "self_extend",
    family="rotary",
    source="Jin et al. 2024, arXiv:2401.01325",
    identities="equals `rope` with groups of one, and `rerope` with one group; is not "
    "relative; a longer text gets the smallest group under which no distance is beyond "
    "the training length",
    checked="authors' code, paper not opened; parts of the code differ on rounding",
)
class SelfExtend(Wrapper):
    """Rotate by the relative position, beyond a window by groups. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated; `length` is that of training.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        group: positions that share one number beyond the window; 1 is RoPE.
        window: first distance that is read by groups; 0 means a quarter of the
            training length, 1024 of 4096 in an example of the README for Llama 2.
    """

    published: ClassVar = {"window": Published(1024, trained_at=4096)}

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        group: int = 8,
        window: int = 0,
    ) -> None:
        if group < 1:
            raise ConfigError(f"self_extend: group must be at least 1, got {group}")
        if window < 0:
            raise ConfigError(f"self_extend: window must be at least 0, got {window}")
        inner = Variant("rope", {"base": base, "layout": layout})
        super().__init__(geometry, inner.build(geometry))
        self.window = window or geometry.positions(self.published["window"])
        self.regroup(group)

    def regroup(self, group: int) -> None:
        """Set how many positions share one number."""
        self.group = group
        self.facts = replace(self.facts, causal_only=True, relative=group == 1)

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        q_far, k_far, near = call.once(
            self, "far", call.q_positions, lambda: self._far(call)
        )
        q = super().query(call.q, q_far, call)
        k = super().key(call.k, k_far, call)
        far = q.to(logits.dtype) @ k.to(logits.dtype).mT * self.scale(q.shape[-1])
        return torch.where(near, logits, far)

    def _far(self, call: Call) -> tuple[Tensor, Tensor, Tensor]:
        """Return where far pairs read queries and keys, and which pairs are near."""
        lift = self.window - self.window // self.group
        past = call.q_positions[:, :, None] - call.k_positions[:, None, :]
        return (
            call.q_positions // self.group + lift,
            call.k_positions // self.group,
            (past < self.window)[:, None],
        )

    def schemes_for_length(self, length: int) -> dict[str, Scheme]:
        """Return it with the smallest group that suffices, ids from 0, if needed."""
        if length <= self.geometry.length or self._suffices(self.group, length):
            return {}
        for group in range(2, length + 1):
            if self._suffices(group, length):
                other = deepcopy(self)
                other.regroup(group)
                return {self.name: other}
        return {}

    def _suffices(self, group: int, length: int) -> bool:
        """Return whether the first key is read at a distance below that of training."""
        last = (length - 1) // group + self.window - self.window // group
        return last < self.geometry.length
