"""The code of a position or an offset: what the scheme makes of it, as one vector.

An absolute scheme turns each position into a vector, which is what `embed` makes of
a zero token. A relative scheme turns each distance into one: what `key` makes of a
fixed vector, and what the bias adds in every head. A sequence has the distances into
the past; a grid, where every cell sees every other, those in all directions.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from torch import Tensor

from posenc_compare.errors import NoCodeError, NonFiniteError
from posenc_compare.measures.probe import Probe, is_single_or_double
from posenc_compare.schemes import HOOKS, Scheme
from posenc_compare.schemes.contract import ask, ask_offsets

# Hooks that change logits, and that neither keys nor a bias of the offset show: there a
# scheme may put other logits in place of some, or turn keys by the tokens themselves.
BEYOND = ("scores", "token_state", "pair_bias")


@dataclass(frozen=True)
class Code:
    """The codes of `0 ... count - 1`.

    Attributes:
        values: `(count, column)` in the probe's dtype. In float32 and float64 they are
            finite, but for -inf of a bias that hides keys.
        of: what is counted: positions, or distances.
        columns: what the columns are; heads, of a bias alone.
        sides: how many there are along each axis, in raster order.
    """

    values: Tensor
    of: Literal["position", "distance"]
    sides: tuple[int, ...]
    columns: Literal["channel", "head"] = "channel"

    def __post_init__(self) -> None:
        if is_single_or_double(self.values) and not (self.values < torch.inf).all():
            raise NonFiniteError("codes must be finite, got NaN or inf")

    @property
    def ids(self) -> Tensor:
        """Return the position or distance of each row, `(count, axis)`, in a grid."""
        ids = torch.cartesian_prod(*map(torch.arange, self.sides))
        return ids - ids[self.origin]

    @property
    def origin(self) -> int:
        """Return the row of position 0, or of distance 0."""
        all_directions = self.of == "distance" and len(self.sides) > 1
        return math.prod(self.sides) // 2 if all_directions else 0


def code_of(scheme: Scheme, probe: Probe, count: int | None = None) -> Code:
    """Return the codes of all positions of the probe, or of all distances in it.

    If `count` is given, only so many are asked for, the first ones.

    A scheme that acts nowhere has one code for all, the number 0.
    """
    if scheme.acts_at("embed"):
        session = probe.session(scheme, probe.arange(count or probe.positions))
        zeros = probe.zeros(1, session.length, probe.width)
        return Code(session.embed(zeros)[0], "position", probe.sides)
    sides = probe.sides
    if probe.grid:
        sides = tuple(2 * side - 1 for side in sides)
    session = probe.session(scheme, probe.raster(sides)[:count])
    call, parts = probe.call_of_ones(session), []
    if scheme.acts_at("key"):
        turned = ask(scheme, "key", call.k, call.k_positions, call)
        parts.append(rearrange(turned, "1 head step d -> step (head d)"))
    if probe.grid:
        bias = _grid_bias(scheme, probe, session.length)
    else:
        bias = ask_offsets(scheme, -session.ids, probe.heads, call)
    if bias is not None:
        parts.append(bias.T.to(probe.torch_dtype))
    hooks = {hook for hook in BEYOND if scheme.acts_at(hook)}
    if probe.grid and bias is not None:
        hooks -= {"pair_bias"}  # which is that bias
    alone = scheme.acts_at("query") and not scheme.acts_at("key")
    if parts and (hooks or alone):
        raise NoCodeError("has no code of a position or distance alone")
    if parts:
        columns = "channel" if scheme.acts_at("key") else "head"
        return Code(torch.cat(parts, dim=1), "distance", sides, columns)
    if any(scheme.acts_at(hook) for hook in HOOKS if hook != "scale"):
        raise NoCodeError("has no code of a position or distance alone")
    return Code(probe.zeros(session.length, 1), "distance", sides)


def cell_codes(scheme: Scheme, probe: Probe) -> Code:
    """Return the code of each cell of a grid or, of a bias, of each distance.

    Of a rotation, that is a key of ones in each cell, behind what is added to tokens.
    The distance of a bias is that from the query to the key.
    """
    added, turned = (scheme.acts_at(hook) for hook in ("embed", "key"))
    beyond = any(scheme.acts_at(hook) for hook in ("offset_bias", *BEYOND))
    if beyond and (added or turned):
        raise NoCodeError("has no code of a position or distance alone")
    if not turned:
        return code_of(scheme, probe)
    call = probe.call_of_ones(probe.session(scheme, probe.arange(probe.positions)))
    keys = ask(scheme, "key", call.k, call.k_positions, call)
    parts = [code_of(scheme, probe).values] if added else []
    parts.append(rearrange(keys, "1 head cell d -> cell (head d)"))
    return Code(torch.cat(parts, dim=1), "position", probe.sides)


def position_codes(scheme: Scheme, probe: Probe) -> Tensor:
    """Return the codes of all positions of the probe, `(position, channel)` float64."""
    code = code_of(scheme, probe)
    if code.of != "position":
        raise NoCodeError("adds no code to tokens")
    return code.values.double()


def _grid_bias(scheme: Scheme, probe: Probe, count: int) -> Tensor | None:
    """Return the bias `(head, distance)` of so many distances, if of those alone.

    Each is read off a pair of cells that are so far apart, and all pairs must agree.
    """
    facts = scheme.facts
    alone = scheme.family == "bias" and facts.relative and not facts.causal_only
    if not alone or not scheme.acts_at("pair_bias"):
        return None
    logits = probe.zero_logits(scheme, probe.arange(probe.positions))
    if facts.hides:
        raise NoCodeError("hides keys of some distances")
    sides = torch.tensor(probe.sides, device=probe.device)
    offsets = probe.raster(tuple(2 * side - 1 for side in probe.sides)) - (sides - 1)
    row = sides.flip(0).cumprod(0).flip(0) // sides  # indices from cell to cell
    query, key = (((sign * offsets).clamp(min=0) * row).sum(-1) for sign in (-1, 1))
    bias = logits[:, query, key]
    cells, wide = probe.arange(probe.positions), 2 * sides - 1
    steps = wide.flip(0).cumprod(0).flip(0) // wide
    pairs = ((cells - cells[:, None] + sides - 1) * steps).sum(-1)
    largest = logits.nan_to_num(0, 0, 0).abs().max().item()
    rounding = 2 * torch.finfo(logits.dtype).eps * largest
    if not torch.allclose(bias[:, pairs], logits, 0, rounding, equal_nan=True):
        return None
    return bias[:, :count]
