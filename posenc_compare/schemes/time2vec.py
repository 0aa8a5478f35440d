"""Time2Vec.

Adds a code whose first channel is linear in the position, and whose other channels are
sines of it. Frequencies and phases are trained.

Formula: `x_p + c(p)` with `c(p)[0] = w_0 p + b_0` and `c(p)[i] = sin(w_i p + b_i)`.
Source: Kazemi et al. 2019, arXiv:1907.05321, equation 1, as several public accounts and
ports of it agree. The paper feeds c to a network in the place of a time; to add it to
tokens is our transfer, so that it has `model_dim` channels instead of 65.
Layout: the linear channel is the first, as in the paper; ports put it last.
Start: frequencies and phases are normal with a standard deviation of 1, as in the
widely used port (ojus1/Time2Vec-PyTorch).
Unit: positions are divided by the length, or count tokens with normalised=false. The
frequencies can learn any unit, but start at wavelengths of about 6 units. In tokens the
linear channel outgrows float16 in long texts.
"""

import torch
from torch import Tensor, nn

from posenc_compare.errors import ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, register


@register(
    "time2vec",
    family="absolute",
    source="Kazemi et al. 2019, arXiv:1907.05321",
    real=True,
    checked="accounts and ports that agree, paper not opened; as a code for tokens, "
    "our transfer; unverified: the start",
)
class Time2Vec(Scheme):
    """Add a line and sines at trained frequencies. `2 * model_dim` parameters.

    Args:
        geometry: `model_dim` channels come out.
        normalised: divide positions by the length.
    """

    def __init__(self, geometry: Geometry, *, normalised: bool = True) -> None:
        super().__init__(geometry)
        self.unit = geometry.length if normalised else 1
        self.frequency = nn.Parameter(torch.randn(geometry.model_dim))
        self.phase = nn.Parameter(torch.randn(geometry.model_dim))

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        width = len(self.frequency)
        if x.shape[-1] != width:
            raise ShapeError(
                f"time2vec: the width must be {width}, as the frequencies', got "
                f"{x.shape[-1]}"
            )
        time = positions[..., None].double() / self.unit
        code = time * self.frequency.double() + self.phase.double()
        code = torch.cat([code[..., :1], code[..., 1:].sin()], dim=-1)
        return x + code.to(x.dtype)
