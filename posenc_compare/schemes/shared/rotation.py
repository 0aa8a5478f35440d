"""The parent of all schemes that rotate pairs of query and key channels.

A pair of channels is read as a complex number and multiplied by a phasor,
`cos(angle) + i sin(angle)`. The angles are computed in float64, see `frequencies`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, HookError
from posenc_compare.schemes.scheme import Call, Geometry, Scheme
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.source.files import OURS

Layout = Literal["adjacent", "half"]

NUMBERS_AT_ONCE = 1 << 18  # numbers that are rotated at a time
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
        """Return complex128 phasors `(..., heads or 1, seq, pair)`.

        Raises:
            HookError: if `angles` does not return what it should.
        """
        angles = self.angles(positions)
        self._check_angles(angles, positions)
        if not self.per_head:
            angles = angles[..., None, :, :]
        return torch.polar(torch.full_like(angles, self.attention_factor), angles)

    def _check_angles(self, angles: object, positions: Tensor) -> None:
        """Refuse angles of another shape than positions and pairs have."""
        rows = positions.shape if self.facts.axes == 1 else positions.shape[:-1]
        most = self.geometry.head_dim // 2
        heads = ("heads",) * self.per_head
        wanted = (*rows[:-1], *heads, rows[-1])
        if isinstance(angles, Tensor):
            got = tuple(angles.shape)
            of_heads = got[-3:-2] if self.per_head else ()
            right = got[:-1] == (*rows[:-1], *of_heads, rows[-1])
            if right and len(got) > len(wanted) and 1 <= got[-1] <= most:
                return
        else:
            got = type(angles).__name__
        raise HookError(
            f"{self.name}: angles must return ({', '.join(map(str, wanted))}, pair) "
            f"with 1 to {most} pairs, got {got}"
        )

    def turning(self, x: Tensor, pairs: int) -> Tensor:
        """Return the channels of the rotated pairs: the first `2 * pairs`."""
        return x[..., : 2 * pairs]

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self.rotated(q, positions, call, self.phasors)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self.rotated(k, positions, call, self.phasors)

    @property
    def keys_alone(self) -> bool:
        """Return whether a session keeps rotated keys.

        The angles of a plugin may depend on the other positions, unless it says here
        that they do not.
        """
        kind = type(self)
        parts = (kind.rotated, kind.phasors, kind.angles)
        ours = all(one.__module__.startswith(f"{OURS}.") for one in parts)
        replaced = vars(self).keys() & {"key", "rotated", "phasors", "angles"}
        return ours and kind.key is Rotation.key and not replaced

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

        def made() -> Tensor:
            return rotation_table(phasors(positions), x.dtype, self.layout)

        learns = torch.is_grad_enabled() and any(
            parameter.requires_grad for parameter in self.parameters()
        )
        if call is None or self.facts.per_layer or learns:
            return rotate(x, made(), self.layout)  # trained angles keep their gradients
        what = f"{phasors.__name__} for {x.dtype}"
        return rotate(x, call.once(self, what, positions, made), self.layout)


def rotation_angles(scheme: Scheme, positions: Tensor) -> Tensor | None:
    """Return the angles by which a scheme, or the one inside it, rotates.

    Returns:
        `(..., seq, pair)` float64, radians; None if the scheme is no rotation, its
        heads have angles of their own, or `positions` has the wrong number of axes.
    """
    rotation = _shared_rotation(scheme)
    if rotation is None:
        return None
    axes = rotation.facts.axes
    if axes > 1 and positions.shape[1:] != (axes,):
        return None
    return rotation.angles(positions)


def wavelengths(scheme: Scheme) -> list[float | None]:
    """Return the tokens in which each pair turns once; None for a pair that does not.

    Returns:
        A number for each pair; none if the scheme is no rotation along one axis, or its
        heads have angles of their own.
    """
    rotation = _shared_rotation(scheme)
    if rotation is None or rotation.facts.axes > 1:
        return []
    steps = rotation.angles(torch.tensor([1])).flatten().abs().tolist()
    return [2 * math.pi / step if step else None for step in steps]


def _shared_rotation(scheme: Scheme) -> Rotation | None:
    """Return the rotation that a scheme is or wraps, if all heads share its angles."""
    while isinstance(scheme, Wrapper):
        scheme = scheme.inner
    if isinstance(scheme, Rotation) and not scheme.per_head:
        return scheme
    return None


def pair_count(scheme: str, head_dim: int) -> int:
    """Return how many pairs of channels a head has."""
    if head_dim % 2:
        raise ConfigError(
            f"{scheme}: head_dim must be even, got {head_dim}; {head_dim + 1} would "
            f"work"
        )
    return head_dim // 2


def rotation_table(phasors: Tensor, dtype: torch.dtype, layout: Layout) -> Tensor:
    """Return phasors as `rotate` reads them, for what has a dtype.

    Args:
        phasors: complex128 `(..., seq, pair)`.
        dtype: of what will be rotated.
        layout: which two channels make a pair.

    Returns:
        The phasors if pairs are adjacent, else cosines and signed sines of all
        channels, `(2, ..., seq, 2 * pair)`; in float32 or wider.
    """
    wide = torch.promote_types(dtype, torch.float32)
    phasors = phasors.to(torch.promote_types(wide, torch.complex64))
    if layout == "adjacent":
        return phasors
    cosine, sine = phasors.real, phasors.imag
    return torch.stack(
        [torch.cat([cosine, cosine], dim=-1), torch.cat([-sine, sine], dim=-1)]
    )


def rotate(x: Tensor, table: Tensor, layout: Layout) -> Tensor:
    """Multiply pairs of channels, read as complex numbers, by phasors.

    Adjacent pairs are complex numbers as they lie. All else is written more than once
    on the way, so a CPU does it by blocks of rows that stay in its cache.

    Args:
        x: `(batch, heads, seq, head_dim)`.
        table: what `rotation_table` made of phasors `(..., seq or 1, pair)` that
            broadcast to `(batch, heads, seq, pair)`; channels beyond these pairs stay
            as they are.
        layout: which two channels make a pair.

    Returns:
        `(batch, heads, seq, head_dim)` in the dtype of `x`.
    """
    if not x.numel():
        return x  # torch reads no complex numbers from an empty tensor of any strides
    width = table.shape[-1] * (2 if layout == "adjacent" else 1)
    if width < x.shape[-1]:
        rotated = rotate(x[..., :width], table, layout)
        return torch.cat([rotated, x[..., width:]], dim=-1)
    as_it_lies = layout == "adjacent" and x.dtype == table.real.dtype
    whole = as_it_lies or x.numel() <= NUMBERS_AT_ONCE or x.device.type != "cpu"
    if whole or torch.compiler.is_compiling():
        return _rotated(x, table, layout)
    rows = max(1, NUMBERS_AT_ONCE * x.shape[-2] // x.numel())
    table = table.expand(*table.shape[:-2], x.shape[-2], -1)
    blocks = zip(x.split(rows, dim=-2), table.split(rows, dim=-2), strict=True)
    return torch.cat([_rotated(*block, layout) for block in blocks], dim=-2)


def _rotated(x: Tensor, table: Tensor, layout: Layout) -> Tensor:
    wide = x.to(table.real.dtype)
    if layout == "adjacent":
        pairs = wide.unflatten(-1, (-1, 2)).contiguous()
        rotated = torch.view_as_real(torch.view_as_complex(pairs) * table).flatten(-2)
    else:
        cosine, sine = table
        rotated = wide * cosine + wide.roll(wide.shape[-1] // 2, dims=-1) * sine
    return rotated.to(x.dtype)
