"""Binary positions.

Adds the bits of the position, least significant first, repeated over the channels.

Formula: `x_p[c] + bit c mod bits of p`.
Source: no primary source; the step between integers and sinusoids in textbooks.
Convention: the bits are repeated as whole copies as often as they fit, and the
channels left over get 0; a position that needs more bits is an error, not a wrap.
"""

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, check_positions, register


@register(
    "binary",
    family="absolute",
    source="no primary source",
    identities="every position has a code of its own",
    checked="no paper: textbooks",
)
class Binary(Scheme):
    """Add the binary digits of the position. Has no parameters.

    Args:
        geometry: `length` sets the number of bits where `bits` is not given;
            `model_dim` must hold them.
        bits: digits of a position; 0 means as many as `length` positions need.
        signed: write digits as -1 and +1 instead of 0 and 1.
    """

    def __init__(
        self, geometry: Geometry, *, bits: int = 0, signed: bool = False
    ) -> None:
        super().__init__(geometry)
        if not 0 <= bits <= 62:
            raise ConfigError(f"binary: bits must be from 0 to 62, got {bits}")
        self.bits = bits or max(1, (geometry.length - 1).bit_length())
        self.signed = signed
        self._check_width(geometry.model_dim)

    def _check_width(self, width: int) -> None:
        if width < self.bits:
            raise ShapeError(
                f"binary: the width must hold {self.bits} bits, got {width} channels"
            )

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = x.shape[-1]
        self._check_width(width)
        check_positions(self.name, positions, 2**self.bits)
        places = torch.arange(self.bits, device=positions.device)
        digits = (positions[..., None] >> places) & 1  # (..., seq, bit)
        if self.signed:
            digits = 2 * digits - 1
        copies = width // self.bits
        code = digits.repeat(*[1] * (digits.dim() - 1), copies)
        code = torch.nn.functional.pad(code, (0, width - copies * self.bits))
        return x + code.to(x.dtype)
