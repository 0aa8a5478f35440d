"""Rotations by trained generators that commute (ComRoPE).

Multiplies blocks of query and key channels by the exponential of a sum of two trained
matrices, one scaled by the row and one by the column of an image patch, as LieRE does.
But the two commute, so that logits depend only on offsets.

Formula: a block is multiplied by `exp((y a + x b) (P - P^T))`, where P is a matrix,
`y = row / height` and `x = column / width`. P is trained; so are a and b with kind=ld
(linearly dependent). With kind=ap (axial partition) they are 1 and 0 for the first
block, 0 and 1 for the second, and so on in turn.
Source: Yu et al. 2025, arXiv:2506.03737, from the authors' released code
(Longin-Yu/ComRoPE, model.py) and its readme.
Axes: ids are (row, column); both run from 0 to 1 over the image that is trained on. The
code also adds half a patch, which cancels in every product, and can move each place at
random while training, which is left out.
Start: the entries of P, a and b are normal with a standard deviation of 1, as in the
code. Each layer and head has a P for each block.
Disagreement: the readme writes one a and one b; the code has those of each block, and
all heads share them.
Block: the code's default is 2, which makes both kinds RoPE at trained frequencies. Here
it is 8, as in LieRE.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Facts, Geometry, register
from posenc_compare.schemes.shared.blocks import TurnedBlocks, image_sides


@register(
    "com_rope",
    family="rotary",
    source="Yu et al. 2025, arXiv:2506.03737",
    axes=2,
    real=True,
    identities="its generators commute; equals `nope` with zero generators",
    checked="authors' code, and the abstract of the paper; unverified: the block size "
    "of the published results",
)
class ComRope(TurnedBlocks):
    """Rotate blocks of channels by trained matrices that commute.

    `heads * head_dim * block + 2 * head_dim / block` parameters; with kind=ap, the
    first term alone.

    Args:
        geometry: `head_dim` channels are turned, those of ap in two equal halves.
        kind: ld, row and column turn each block the same way, at trained speeds; ap,
            one of them turns each block.
        block: channels that turn together.
        height: rows of the trained image; 0 means the smallest square that holds
            `length`.
        width: its columns; 0 likewise.
    """

    facts = Facts(per_layer=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        kind: Literal["ld", "ap"] = "ld",
        block: int = 8,
        height: int = 0,
        width: int = 0,
    ) -> None:
        sides = image_sides("com_rope", geometry, height, width)
        super().__init__(geometry, block, sides)
        heads, blocks = geometry.heads, geometry.head_dim // block
        if kind == "ap" and blocks % 2:
            raise ConfigError(
                f"com_rope: block must divide half of head_dim, got {block} and "
                f"{geometry.head_dim}"
            )
        self.matrix = nn.Parameter(torch.randn(heads, blocks, block, block))
        self.speeds = nn.Parameter(torch.randn(2, blocks)) if kind == "ld" else None

    def generators(self) -> Tensor:
        matrix = self.matrix.double()
        if self.speeds is None:
            one_axis = torch.eye(2, dtype=matrix.dtype, device=matrix.device)
            speeds = one_axis.repeat(1, matrix.shape[1] // 2)
        else:
            speeds = self.speeds.double()
        return speeds[:, None, :, None, None] * (matrix - matrix.mT)
