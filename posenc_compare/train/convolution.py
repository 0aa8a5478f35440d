"""Short convolutions in a network, which mix a token with its neighbours.

They are not positional schemes, yet they show a network the neighbours of a token. So
they are a setting of the network, crossed with any scheme.

`canon`: Canon layers A, B, C and D (Allen-Zhu 2025, arXiv:2512.17351; public code
facebookresearch/PhysicsLM4). Each adds to every channel a weighted sum of its last four
values: of the input of attention (A), of queries, keys and values (B), of the input of
the perceptron (C), and of its hidden channels before they are activated (D). `canon_a`
has the first alone. Weights start uniform in +-1/2, as in that code.

`kv_shift`: a share of each key and value is that of the token before (public code
tensorgi/GRAPE, `model/kv_shift.py`, after Lin et al. 2025, arXiv:2503.02130, who
normalise keys as well, which is left out). The share is a sigmoid of the layer's input,
one for each head. The first token keeps what its share leaves, in a text of one token
too, where that code keeps all; so a text's beginning never depends on its length.

`peg`: the position generator of CPVT (Chu et al. 2021, arXiv:2102.10882; the authors'
code `gvt.py` of Meituan-AutoML/Twins was read, the paper was not). Behind the first
layer, every channel gets a weighted sum of its 3 x 3 neighbours, with a bias. The grid
is padded with zeros, and a network can infer positions from this padding. A text is one
row. A class token takes no part. Weights start as in that code. A causal mask forbids
it.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.settings.setting import Convolution

TAPS = 4  # tokens that a Canon layer sees
NEAR = (3, 3)  # cells that `peg` sees


class Still(nn.Module):
    """No convolution; the others change what they act on."""

    reach = 0  # tokens before that a perceptron sees through it
    once = False  # whether the first layer alone has it

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()

    def start(self, generator: torch.Generator) -> None:
        """Draw the weights."""

    def attended(self, x: Tensor) -> Tensor:
        """Return the input of attention, `(batch, seq, width)`."""
        return x

    def projected(
        self, q: Tensor, k: Tensor, v: Tensor, x: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, `(batch, seq, width)` each."""
        return q, k, v

    def read(self, x: Tensor) -> Tensor:
        """Return the input of the perceptron, `(batch, seq, width)`."""
        return x

    def hidden(self, x: Tensor) -> Tensor:
        """Return the perceptron's hidden channels, `(batch, seq, 4 width)`."""
        return x

    def behind(self, x: Tensor, sides: tuple[int, int], first: int = 0) -> Tensor:
        """Return the output of the layer, `(batch, seq, width)`.

        From token `first` on, tokens are those of a grid of `sides`, row by row.
        """
        return x


class CanonA(Still):
    """A Canon layer before attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.a = nn.Parameter(torch.empty(width, TAPS))

    def start(self, generator: torch.Generator) -> None:
        """Draw weights as `nn.Conv1d` draws those of one channel."""
        for weight in self.parameters():
            nn.init.uniform_(weight, -(TAPS**-0.5), TAPS**-0.5, generator)

    def attended(self, x: Tensor) -> Tensor:
        return _sum_taps(x, self.a)


class Canon(CanonA):
    """Canon layers at all four places."""

    reach = 2 * (TAPS - 1)

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.b = nn.Parameter(torch.empty(3, width, TAPS))
        self.c = nn.Parameter(torch.empty(width, TAPS))
        self.d = nn.Parameter(torch.empty(4 * width, TAPS))

    def projected(
        self, q: Tensor, k: Tensor, v: Tensor, x: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        of_q, of_k, of_v = self.b
        return _sum_taps(q, of_q), _sum_taps(k, of_k), _sum_taps(v, of_v)

    def read(self, x: Tensor) -> Tensor:
        return _sum_taps(x, self.c)

    def hidden(self, x: Tensor) -> Tensor:
        return _sum_taps(x, self.d)


class KVShift(Still):
    """Keys and values that are in part those of the token before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.shares = nn.Parameter(torch.empty(2 * heads, width))

    def start(self, generator: torch.Generator) -> None:
        """Draw weights as those of the network's matrices."""
        nn.init.normal_(self.shares, 0, self.shares.shape[1] ** -0.5, generator)

    def projected(
        self, q: Tensor, k: Tensor, v: Tensor, x: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        scores = F.linear(x, self.shares)
        wide = torch.promote_types(scores.dtype, torch.float32)
        shares = scores.to(wide).sigmoid()
        of_keys, of_values = (
            part.repeat_interleave(k.shape[-1] // part.shape[-1], dim=-1)
            for part in shares.chunk(2, dim=-1)
        )
        return q, _mix_previous(k, of_keys), _mix_previous(v, of_values)


class Peg(Still):
    """A depthwise convolution over the grid behind the first layer."""

    once = True

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.taps = nn.Parameter(torch.empty(width, 1, *NEAR))
        self.bias = nn.Parameter(torch.zeros(width))

    def start(self, generator: torch.Generator) -> None:
        nn.init.normal_(self.taps, 0, math.sqrt(2 / math.prod(NEAR)), generator)

    def behind(self, x: Tensor, sides: tuple[int, int], first: int = 0) -> Tensor:
        own, cells = x.tensor_split([first], dim=1)
        if cells.shape[1] != math.prod(sides):
            on = "without a grid"
            if all(sides):
                on = f"on one of {sides[0]} x {sides[1]}"
            raise ConfigError(
                f"peg: needs the tokens of a whole grid, row by row, got "
                f"{cells.shape[1]} tokens {on}; convolution=none would work"
            )
        grid = cells.mT.unflatten(-1, sides)
        mixed = F.conv2d(grid, self.taps, self.bias, padding=1, groups=len(self.taps))
        return torch.cat([own, (grid + mixed).flatten(2).mT], dim=1)


def _sum_taps(x: Tensor, taps: Tensor) -> Tensor:
    """Add to every channel a weighted sum of its last values.

    Args:
        x: `(batch, seq, channel)`.
        taps: `(channel, tap)`; the last tap is the token's own.
    """
    padded = F.pad(x.mT, (taps.shape[1] - 1, 0))
    return x + F.conv1d(padded, taps[:, None], groups=len(taps)).mT


def _mix_previous(x: Tensor, share: Tensor) -> Tensor:
    """Mix each token with the one before, by its share; before the first is zero."""
    before = F.pad(x, (0, 0, 1, 0))[:, :-1]
    return ((1 - share) * x + share * before).to(x.dtype)


CONVOLUTIONS: dict[Convolution, type[Still]] = {
    "none": Still,
    "canon": Canon,
    "canon_a": CanonA,
    "kv_shift": KVShift,
    "peg": Peg,
}
