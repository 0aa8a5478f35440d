"""Do jumps at carries make bits worse? Gray codes flip one bit from step to step.

posenc-compare run --preset survey --measures extrapolation \
    --plugin examples/gray_code.py --schemes gray,binary,sinusoidal
"""

from torch import Tensor

from posenc_compare.schemes import register
from posenc_compare.schemes.binary import Binary


@register("gray", family="absolute", source="Gray 1953, US patent 2632058")
class Gray(Binary):
    """Add the bits of the Gray code of the position. Has no parameters."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().embed(x, positions ^ (positions >> 1))
