"""Continuous augmented positional embeddings (CAPE).

Adds sines and cosines of positions that training moves and stretches: all of a
sequence by one shift, each token by a small one of its own, all by one factor.

Formula: `x_p + sin(q w_m), cos(q w_m)` with `w_m = base ** (-2 m / width)` and a moved
position `q = (p + shift + own_p) * exp(g)`.
Source: Likhomanenko et al. 2021, arXiv:2106.03143, the rule of the paper's listing.
The shifts and g, the logarithm of the factor, are drawn uniformly from intervals
symmetric about 0. The default ranges are those that the port gcambara/cape
gives for text.
Convention: the own shift goes up to `local_shift` either way, as in the listing; the
port takes half of it. Positions may be centred on their mean first, in training and
testing; the mean is that of the whole row, so packed documents share it. Tokens are
not multiplied by sqrt(width) here; the network decides.
Layout: interleaved sines and cosines, as in the port.
Moves are rounded to steps of 2 ** -16, so that a position and its move add up exactly.
The draws are made in training only, and only with a generator.
"""

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, register
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant

STEPS = 1 << 16  # per position


@register(
    "cape",
    family="absolute",
    source="Likhomanenko et al. 2021, arXiv:2106.03143",
    checked="paper's listing; ranges of a port",
)
class Cape(Wrapper):
    """Add sinusoids of positions that are augmented in training. Has no parameters.

    Args:
        geometry: not used; the width is that of the tokens.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: where sines and cosines stand.
        global_shift: largest shift of a sequence, in positions.
        local_shift: largest shift of one token, in positions.
        scaling: largest factor of a sequence; the smallest is its inverse.
        centred: subtract the mean position of each sequence.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["interleaved", "concatenated"] = "interleaved",
        global_shift: float = 5.0,
        local_shift: float = 0.5,
        scaling: float = 1.03,
        centred: bool = False,
    ) -> None:
        if global_shift < 0 or local_shift < 0 or scaling < 1:
            raise ConfigError(
                f"cape: shifts must be at least 0 and scaling at least 1, got "
                f"{global_shift}, {local_shift} and {scaling}"
            )
        inner = Variant("sinusoidal", {"base": base, "layout": layout})
        super().__init__(geometry, inner.build(geometry))
        self.global_shift = global_shift
        self.local_shift = local_shift
        self.scaling = scaling
        self.centred = centred
        if centred:
            why = "the middle is that of all tokens, of other documents and padding too"
            faults = dict.fromkeys(("C18", "C19", "C21"), why)
            self.facts = replace(self.facts, relative=True, known_faults=faults)

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        place = positions.double()
        if self.centred and positions.numel():
            place = place - place.mean(dim=-1, keepdim=True)
        if self.training and generator is not None:
            each = (*positions.shape[:-1], 1)
            shift = self._uniform(self.global_shift, each, generator)
            own = self._uniform(self.local_shift, positions.shape, generator)
            factor = self._uniform(math.log(self.scaling), each, generator).exp()
            place = (place + (shift + own).to(place.device)) * factor.to(place.device)
        return positions + ((place - positions) * STEPS).round() / STEPS

    def _uniform(
        self, most: float, shape: tuple[int, ...], generator: torch.Generator
    ) -> Tensor:
        unit = torch.rand(shape, generator=generator, dtype=torch.float64)
        return most * (2 * unit - 1)
