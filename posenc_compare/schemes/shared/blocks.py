"""The parent of schemes that rotate blocks of channels by trained matrices."""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Geometry, Scheme


class TurnedBlocks(Scheme, ABC):
    """Rotate blocks of channels by the exponential of matrices times positions.

    Args:
        geometry: `head_dim` channels are rotated.
        block: channels that rotate together.
        span: rows, and columns, that lie between 0 and 1.
    """

    def __init__(self, geometry: Geometry, block: int, span: tuple[int, int]) -> None:
        super().__init__(geometry)
        if block < 2 or geometry.head_dim % block:
            raise ConfigError(
                f"{self.name}: block must be at least 2 and divide head_dim, "
                f"got {block} and {geometry.head_dim}"
            )
        self.block, self.span = block, span

    @abstractmethod
    def generators(self) -> Tensor:
        """Return skew-symmetric `(axis, heads or 1, block, row, column)` float64."""

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._turned(q, positions, call)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._turned(k, positions, call)

    def turns(self, positions: Tensor) -> Tensor:
        """Return float64 matrices `(..., heads or 1, seq, block, row, column)`."""
        at = positions / positions.new_tensor(self.span).double()
        along = [x[..., None, :, None, None, None] for x in at.unbind(dim=-1)]
        parts = zip(along, self.generators()[:, :, None], strict=True)
        return exponential(torch.stack([x * part for x, part in parts]).sum(dim=0))

    def _turned(self, x: Tensor, positions: Tensor, call: Call | None) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)

        def made() -> Tensor:
            return self.turns(positions).to(wide)

        if (
            call is None or torch.is_grad_enabled()
        ):  # trained turns keep their gradients
            turns = made()
        else:
            turns = call.once(self, f"turns in {wide}", positions, made)
        blocks = x.to(wide).unflatten(-1, (-1, self.block))
        turned = torch.einsum("...ij,...j->...i", turns, blocks)
        return turned.flatten(-2).to(x.dtype)


def exponential(x: Tensor) -> Tensor:
    """Return the exponential of skew-symmetric matrices."""
    if x.shape[-1] > 2:
        return torch.matrix_exp(x)
    # Far from 0, cosine and sine are nearer to it than the squarings of matrix_exp.
    sine, cosine = x[..., 1, 0].sin(), x[..., 1, 0].cos()
    return torch.stack([cosine, -sine, sine, cosine], dim=-1).unflatten(-1, (2, 2))


def image_sides(
    scheme: str, geometry: Geometry, height: int, width: int
) -> tuple[int, int]:
    """Return the rows and columns of the trained image; 0 means those of a square."""
    for name, value in (("height", height), ("width", width)):
        if value < 0:
            raise ConfigError(f"{scheme}: {name} must be at least 1, got {value}")
    side = math.isqrt(geometry.length - 1) + 1
    return height or side, width or side
