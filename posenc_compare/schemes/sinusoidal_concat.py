"""Sinusoids beside the token.

Puts sines and cosines of the position next to the token vector instead of on top of
it, and lets a trained layer bring both back to the model's width.

Formula: `W [x_p, code_p]` with a trained W.
Source: no primary source; the alternative to the sum that is asked about in Vaswani
et al. 2017, arXiv:1706.03762, whose sinusoids of section 3.5 it takes.
Layout: token before code; sines and cosines interleaved, which the layer cannot tell
from any other order. The layer has no bias. It starts as the identity on the token
plus a random projection of the code with entries from N(0, 1 / channels): tokens pass
unharmed, the code comes out as large as sinusoids that are added, and inner products
of codes are kept on average, but in directions that favour no channel of the token.
With the identity in place of the projection it is the sinusoidal scheme.
"""

import torch
from einops import rearrange
from torch import Tensor, nn

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, register
from posenc_compare.schemes.shared.frequencies import position_angles
from posenc_compare.schemes.shared.layers import apply_wide


@register(
    "sinusoidal_concat",
    family="absolute",
    source="no primary source",
    real=True,
    identities="equals `sinusoidal` with the identity as projection",
    checked="our own start; no paper",
)
class SinusoidalConcat(Scheme):
    """Project token and sinusoid, side by side, back to the model's width.

    `model_dim * (model_dim + channels)` parameters.

    Args:
        geometry: `model_dim` channels of the token.
        channels: of the sinusoid; 0 means as many as `model_dim`.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
    """

    def __init__(
        self, geometry: Geometry, *, channels: int = 0, base: float = 10_000.0
    ) -> None:
        super().__init__(geometry)
        width = geometry.model_dim
        self.channels = channels or width
        self.base = base
        if self.channels < 2 or self.channels % 2:
            raise ConfigError(
                f"sinusoidal_concat: channels must be even and at least 2, "
                f"got {self.channels}"
            )
        self.project = nn.Linear(width + self.channels, width, bias=False)
        with torch.no_grad():
            self.project.weight[:, :width] = torch.eye(width)
            self.project.weight[:, width:].normal_(std=self.channels**-0.5)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = self.project.out_features
        if x.shape[-1] != width:
            raise ShapeError(
                f"sinusoidal_concat: the width must be {width}, as the layer's, "
                f"got {x.shape[-1]}"
            )
        angle = position_angles(positions, self.channels // 2, self.base)
        waves = torch.stack([angle.sin(), angle.cos()])
        code = rearrange(waves, "two ... seq pair -> ... seq (pair two)")
        wide = torch.promote_types(x.dtype, torch.float32)
        code = code.to(wide).expand(*x.shape[:-1], -1)
        return apply_wide(self.project, torch.cat([x.to(wide), code], -1)).to(x.dtype)
