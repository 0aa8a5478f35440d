"""Multimodal rotary positions (M-RoPE).

A position has a time, a height and a width. Each pair of query and key channels rotates
with one of the three, so that text, images and video share one rotation.

Formula: pair m rotates by `ids[axis(m)] * base ** (-2 m / d)`.
Source: Wang et al. 2024, arXiv:2409.12191 (Qwen2-VL); sections and interleaved as in
transformers' qwen2_vl and qwen3_vl. Time_last is that of Wei et al. 2025,
arXiv:2502.05173 (VideoRoPE), from the authors' released code (modeling_videorope.py),
and of transformers' ernie4_5_vl_moe.
Order: sections gives the fastest pairs to time, the next to height, the slowest to
width, 16, 24 and 24 of 64 pairs. Interleaved deals them out in turn, time, height,
width, and gives what is left over to time, 24, 20 and 20 of 64 (Qwen3-VL). Time_last
deals the fastest out to height and width in turn, and the slowest to time, 16, 24 and
24 of 64 (VideoRoPE), or 20, 22 and 22 (Ernie 4.5-VL).
Layout: `half` pairs channel i with i + d/2, as released; `adjacent` pairs (0, 1),
(2, 3), ... The released networks have a base of 1 000 000 or more.
Axes: ids are (time, height, width); text has three equal ids, and is then plain RoPE.
VideoRoPE gives frame f the time 2 f after the text before it, and adds the time to rows
and columns that are counted from the middle of the frame.
"""

from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, register
from posenc_compare.schemes.shared.frequencies import position_angles
from posenc_compare.schemes.shared.rotation import Rotation, pair_count

# Of height, and of width.
SHARES = {"sections": (3, 8), "interleaved": (5, 16), "time_last": (3, 8)}


def axis_of_pairs(counts: list[int], order: str) -> list[int]:
    """Return the axis, 0 to 2, that each pair rotates with.

    Args:
        counts: pairs wanted for each axis.
        order: sections, interleaved or time_last; interleaved gives time what has no
            place elsewhere.
    """
    if order == "sections":
        return [axis for axis, count in enumerate(counts) for _ in range(count)]
    if order == "time_last":
        return [1 + m % 2 for m in range(sum(counts[1:]))] + [0] * counts[0]
    deal = [m % 3 for m in range(sum(counts))]
    return [axis if m < 3 * counts[axis] else 0 for m, axis in enumerate(deal)]


@register(
    "m_rope",
    family="rotary",
    source="Wang et al. 2024, arXiv:2409.12191",
    axes=3,
    real=True,
    identities="equals `rope` if all ids of a position are equal",
    oracles="transformers 1e-7",
    checked="transformers; `time_last` also authors' code of VideoRoPE; papers not "
    "opened",
)
class MRope(Rotation):
    """Rotate each pair by time, height or width. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        order: which pairs rotate with which axis.
        sections: pairs of time, height and width, as `16/24/24`; empty means in the
            proportions of the released networks, rounded down for height and width.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "half",
        order: Literal["sections", "interleaved", "time_last"] = "sections",
        sections: str = "",
    ) -> None:
        super().__init__(geometry, base, layout)
        self.pairs = pair_count("m_rope", geometry.head_dim)
        if self.pairs < 3:
            raise ConfigError(
                f"m_rope: head_dim must be at least 6, a pair for each axis, got "
                f"{geometry.head_dim}"
            )
        counts = self._counts(order, sections)
        fits = len(counts) == 3 and 0 not in counts and sum(counts) == self.pairs
        axes = axis_of_pairs(counts, order) if fits else []
        if [axes.count(axis) for axis in range(3)] != counts:
            raise ConfigError(
                f"m_rope: sections must be time / height / width, 1 or more each, "
                f"{self.pairs} in all and in reach of the order {order}, got "
                f"{' / '.join(map(str, counts))}"
            )
        self.axes_of = axes

    def angles(self, positions: Tensor) -> Tensor:
        angle = position_angles(positions.movedim(-1, 0), self.pairs, self.base)
        parts = [angle[axis, ..., m] for m, axis in enumerate(self.axes_of)]
        return torch.stack(parts, dim=-1)

    def _counts(self, order: str, sections: str) -> list[int]:
        if sections:
            counts = [int(n) if n.isdecimal() else 0 for n in sections.split("/")]
        else:
            part, whole = SHARES[order]
            side = self.pairs * part // whole or 1
            counts = [self.pairs - 2 * side, side, side]
        return counts
