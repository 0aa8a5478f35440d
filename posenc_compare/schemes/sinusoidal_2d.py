"""Sinusoidal encoding of two axes, (row, column).

Formula: `x_p + sin(row w_m), cos(row w_m), sin(column w_m), cos(column w_m)`.
Source: no primary source; the extension of Vaswani et al. 2017, arXiv:1706.03762,
section 3.5, to images, as released with MoCo v3, big_vision, timm and tensor2tensor.
Layout: sines and cosines of the row in one half of the channels, of the column in the
other, as four blocks; frequencies are `base ** -exponent`.

| layout     | blocks                                     | exponent           |
|------------|--------------------------------------------|--------------------|
| timm       | sin row, sin column, cos row, cos column   | m / quarter        |
| moco_v3    | sin column, cos column, sin row, cos row   | m / quarter        |
| big_vision | the same; so vit-pytorch                   | m / (quarter - 1)  |
| t2t        | sin row, cos row, sin column, cos column   | m / (quarter - 1)  |

With one channel per quarter, the last two divide by 0; here the frequency is 1.
"""

from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, register
from posenc_compare.schemes.shared.frequencies import position_angles

SIN_ROW, COS_ROW, SIN_COLUMN, COS_COLUMN = range(4)
BLOCKS = {
    "timm": (SIN_ROW, SIN_COLUMN, COS_ROW, COS_COLUMN),
    "moco_v3": (SIN_COLUMN, COS_COLUMN, SIN_ROW, COS_ROW),
    "big_vision": (SIN_COLUMN, COS_COLUMN, SIN_ROW, COS_ROW),
    "t2t": (SIN_ROW, COS_ROW, SIN_COLUMN, COS_COLUMN),
}
REACH_THE_BASE = ("big_vision", "t2t")


@register(
    "sinusoidal_2d",
    family="absolute",
    source="no primary source",
    axes=2,
    real=True,
    identities="products depend only on the two offsets",
    oracles="positional-encodings 6e-8, timm 6e-8",
    checked="four released implementations; no paper",
)
class Sinusoidal2d(Scheme):
    """Add sines and cosines of row and column. Has no parameters.

    Args:
        geometry: not used; the width is that of the tokens.
        base: wavelengths run from 2 pi to 2 pi times this, in positions; nearly, or
            exactly where the exponent reaches 1.
        layout: whose order of blocks and exponents.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["timm", "moco_v3", "big_vision", "t2t"] = "timm",
    ) -> None:
        super().__init__(geometry)
        if not base > 0:
            raise ConfigError(f"sinusoidal_2d: base must be greater than 0, got {base}")
        self.base = base
        self.layout = layout

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = x.shape[-1]
        if width % 4:
            raise ShapeError(
                f"sinusoidal_2d: the width must be divisible by 4, got {width}"
            )
        quarter = width // 4
        base = self.base
        if self.layout in REACH_THE_BASE:
            base **= quarter / max(quarter - 1, 1)
        row, column = (
            position_angles(ids, quarter, base) for ids in positions.unbind(-1)
        )
        blocks = row.sin(), row.cos(), column.sin(), column.cos()
        code = torch.cat([blocks[i] for i in BLOCKS[self.layout]], dim=-1)
        return x + code.to(x.dtype)
