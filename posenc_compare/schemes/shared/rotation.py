"""The parent of all schemes that rotate pairs of query and key channels.

A pair of channels is read as a complex number and multiplied by a phasor,
`cos(angle) + i sin(angle)`. The angles are computed in float64, see `frequencies`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.call import Call, Geometry
from posenc_compare.schemes.scheme import Scheme
from posenc_compare.schemes.wrapper import Wrapper

Layout = Literal["adjacent", "half"]

PAIRS = {"adjacent": "(pair two)", "half": "(two pair)"}


class Rotation(Scheme, ABC):
    """Rotate queries and keys by angles that a subclass makes of the positions.

    Args:
        geometry: `head_dim` is the width of a head.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair; half pairs channel i with i + d/2,
            adjacent the channels (0, 1), (2, 3), ...

    Attributes:
        per_head: whether each head has angles of its own.
    """

    per_head: bool = False

    def __init__(self, geometry: Geometry, base: float, layout: Layout) -> None:
        super().__init__(geometry)
        self.base = base
        self.layout: Layout = layout

    @abstractmethod
    def angles(self, positions: Tensor) -> Tensor:
        """Return the angle of every pair at every position.

        Args:
            positions: `(..., seq)`; schemes of several axes get a last axis more.

        Returns:
            `(..., seq, pair)` float64, radians; `(..., heads, seq, pair)` if heads
            have their own.
        """

    @property
    def attention_factor(self) -> float:
        """Return the factor that multiplies cosines and sines."""
        return 1.0

    def phasors(self, positions: Tensor) -> Tensor:
        """Return complex128 phasors `(..., heads or 1, seq, pair)`."""
        angles = self.angles(positions)
        if not self.per_head:
            angles = angles[..., None, :, :]
        return torch.polar(torch.full_like(angles, self.attention_factor), angles)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self.rotated(q, positions, call, self.phasors)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self.rotated(k, positions, call, self.phasors)

    def rotated(
        self,
        x: Tensor,
        positions: Tensor,
        call: Call | None,
        phasors: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Rotate `x` by the phasors, made once for all layers that share the scheme.

        Args:
            x: `(batch, heads, seq, head_dim)`.
            positions: as for `angles`.
            call: the attention call, if there is one.
            phasors: the method that makes them of the positions.
        """
        if call is None or self.facts.per_layer:  # trained angles keep their gradients
            made = phasors(positions)
        else:
            name = phasors.__name__
            made = call.once(self, name, positions, lambda: phasors(positions))
        return rotate(x, made, self.layout)


def rotation_angles(scheme: Scheme, positions: Tensor) -> Tensor | None:
    """Return the angles by which a scheme, or the one inside it, rotates.

    Returns:
        `(..., seq, pair)` float64, radians; None if the scheme is no rotation, or its
        heads have angles of their own.
    """
    while isinstance(scheme, Wrapper):
        scheme = scheme.inner
    if not isinstance(scheme, Rotation) or scheme.per_head:
        return None
    return scheme.angles(positions)


def pair_count(scheme: str, head_dim: int) -> int:
    """Return how many pairs of channels a head has.

    Raises:
        ConfigError: if one channel is left over.
    """
    if head_dim % 2:
        raise ConfigError(f"{scheme}: head_dim must be even, got {head_dim}")
    return head_dim // 2


def rotate(x: Tensor, phasors: Tensor, layout: Layout) -> Tensor:
    """Multiply pairs of channels, read as complex numbers, by phasors.

    Args:
        x: `(batch, heads, seq, head_dim)`.
        phasors: complex128, broadcasts to `(batch, heads, seq, pair)`; the channels
            beyond these pairs stay as they are.
        layout: which two channels make a pair.

    Returns:
        `(batch, heads, seq, head_dim)` in the dtype of `x`.
    """
    if not x.numel():
        return x  # torch reads no complex numbers from an empty tensor of any strides
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    phasors = phasors.to(torch.promote_types(wide.dtype, torch.complex64))
    width = 2 * phasors.shape[-1]
    pairs = rearrange(
        wide[..., :width], f"... {PAIRS[layout]} -> ... pair two", two=2
    ).contiguous()
    rotated = torch.view_as_real(torch.view_as_complex(pairs) * phasors)
    rotated = rearrange(rotated, f"... pair two -> ... {PAIRS[layout]}")
    return torch.cat([rotated, wide[..., width:]], dim=-1).to(x.dtype)
