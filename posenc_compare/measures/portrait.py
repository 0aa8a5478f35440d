"""Portrait: what a scheme looks like, as arrays that plots draw.

Nothing is ranked here, so the measure has no rows. A scheme is asked at each of its
hooks for what it makes of zeros or ones, at the positions where it places the tokens of
a sequence; what it leaves unchanged gives no array.

Definition of `similarity`: for an offset o, the mean over positions p of
`cos(code(p), code(p + o))`, with the code of a position as `embed` makes it of a zero
vector, or else as `key` makes it of a vector of ones. A scheme that also acts where
keys do not show it has none. On a grid, the cosine of the
codes of its middle cell and of each cell.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.errors import (
    ConfigError,
    HookError,
    PosencError,
    UndefinedPositionError,
)
from posenc_compare.measures.codes import BEYOND
from posenc_compare.measures.distance_decay import own_angles
from posenc_compare.measures.measure import Result, register_measure
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.schemes.contract import ask
from posenc_compare.train.progress import Progress

CODE = (128, 512)  # positions, channels
SMALL_CODE = (16, 32)  # positions, channels
MAP = 48  # tokens along each side of a bias map
MAP_HEADS = 8  # heads kept, evenly spaced over all
ANGLES = 64  # positions
OFFSETS = 128  # offsets 0 ... 127, each a mean over as many positions
DIGITS = 4  # significant digits; a colour or a line shows fewer


@register_measure("portrait", quantities=(), version=4, once=True)
def portrait(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """What the scheme looks like: the arrays that plots draw.

    Parameters are as the scheme starts with them, before any training.

    Args:
        variant: the scheme under test.
        probe: heads, seed and device; computed in float64.
        progress: called after each array.

    Returns:
        No rows. Arrays, each left out where the scheme has none of it: `code`
        `(128, 512)` and `code_small` `(16, 32)`, position by channel, what `embed`
        adds to a zero vector, built for that size; `bias_map` `(heads, 48, 48)`,
        query by key, logits of zero queries and keys, -inf where a query may not
        look, of the heads in `bias_heads`; `angles` `(64, pairs)` in radians;
        `similarity` at offsets 0 ... 127. A scheme that defines fewer positions
        gives that many. On a grid, of its middle cell and each other: `grid_bias`
        and `grid_similarity` `(heads, row, column)`; of three axes, the plane in
        the middle of the first.

    Raises:
        PosencError: if the scheme comes in none of these sizes.
    """
    probe = replace(probe, dtype="float64")
    arrays: dict[str, Any] = {}
    refused = None
    for name, draw in (GRID_PARTS if probe.grid else PARTS).items():
        try:
            values = draw(variant, probe)
        except HookError:
            raise
        except PosencError as error:  # a size that this scheme does not come in
            refused = error
        else:
            if values is not None:
                arrays[name] = _nested(values)
        progress(1)
    if refused is not None and not arrays:
        raise refused
    if arrays.keys() & {"bias_map", "grid_bias", "grid_similarity"}:
        arrays["bias_heads"] = _map_heads(probe.heads)
    return Result([], arrays)


def code(variant: Variant, probe: Probe, positions: int, width: int) -> Tensor | None:
    """Return what `embed` makes of zero vectors, `(position, channel)`, or None."""
    sized = replace(probe, width=width, heads=1)
    scheme = sized.build(variant, positions)
    if not scheme.acts_at("embed"):
        return None
    return _up_to_limit(lambda count: _embedded(scheme, sized, count), positions)


def bias_map(variant: Variant, probe: Probe) -> Tensor | None:
    """Return logits of zero queries and keys, `(head, query, key)`.

    None if they are 0 wherever a query may look.
    """
    scheme = probe.build(variant, max(MAP, probe.positions))

    def logits(count: int) -> Tensor:
        return probe.zero_logits(scheme, probe.arange(count))

    found = _up_to_limit(logits, MAP)
    if not found[found.isfinite()].any():
        return None
    return found[_map_heads(probe.heads)]


def angles(variant: Variant, probe: Probe) -> Tensor | None:
    """Return the angles by which a scheme rotates, `(position, pair)` radians."""
    scheme = probe.build(variant)
    if own_angles(scheme, probe, 1) is None:
        return None

    def rotated(count: int) -> Tensor:
        found = own_angles(scheme, probe, count)
        assert found is not None
        return found

    return _up_to_limit(rotated, ANGLES)


def similarity(variant: Variant, probe: Probe) -> Tensor | None:
    """Return the mean cosine of the codes of positions p and p + offset, or None.

    Positions whose code is the zero vector have no direction and do not count.
    """
    scheme = probe.build(variant, max(2 * OFFSETS, probe.positions))
    coded = _coded(scheme, probe)
    if coded is None:
        return None
    codes = _up_to_limit(coded, 2 * OFFSETS)
    count = codes.shape[1]
    long = codes.norm(dim=-1) > 0  # (head, position)
    directions = F.normalize(codes, dim=-1)
    means = []
    for offset in range(min(OFFSETS, count)):
        pairs = min(OFFSETS, count - offset)
        near, far = slice(0, pairs), slice(offset, offset + pairs)
        both = long[:, near] & long[:, far]
        cosines = (directions[:, near] * directions[:, far]).sum(dim=-1)
        means.append(cosines[both].mean())
    return torch.stack(means)


def grid_bias(variant: Variant, probe: Probe) -> Tensor | None:
    """Return logits of a zero query in the middle cell, `(head, row, column)`.

    None if they are 0 for all keys.
    """
    scheme = probe.build(variant)
    logits = probe.zero_logits(scheme, probe.arange(probe.positions))
    found = logits[:, _middle(probe)]
    return _plane(found, probe) if found[found.isfinite()].any() else None


def grid_similarity(variant: Variant, probe: Probe) -> Tensor | None:
    """Return the cosine of each cell's code with the middle's, `(head, row, column)`.

    Heads are those of a rotation; what `embed` adds has one map for all. A zero vector
    has no direction: its cell is NaN, and if the middle's is one, there is no map.
    """
    scheme = probe.build(variant)
    coded = _coded(scheme, probe)
    if coded is None:
        return None
    directions = F.normalize(codes := coded(probe.positions), dim=-1)
    cosines = directions @ directions[:, _middle(probe), :, None]
    cosines = cosines[..., 0].masked_fill(codes.norm(dim=-1) == 0, torch.nan)
    return (
        _plane(cosines, probe) if (directions[:, _middle(probe)] != 0).any() else None
    )


Part = Callable[[Variant, Probe], Tensor | None]
PARTS: dict[str, Part] = {
    "code": lambda variant, probe: code(variant, probe, *CODE),
    "code_small": lambda variant, probe: code(variant, probe, *SMALL_CODE),
    "bias_map": bias_map,
    "angles": angles,
    "similarity": similarity,
}
GRID_PARTS: dict[str, Part] = {
    "grid_bias": grid_bias,
    "grid_similarity": grid_similarity,
}


def _middle(probe: Probe) -> int:
    """Return the index of the middle cell of a grid, of two the later one."""
    middle = torch.tensor([side // 2 for side in probe.sides], device=probe.device)
    return int((probe.arange(probe.positions) == middle).all(dim=-1).nonzero())


def _plane(values: Tensor, probe: Probe) -> Tensor:
    """Return `(head, row, column)` of values in all cells, `(head, cell)`."""
    cells = values.unflatten(1, probe.sides)
    plane = cells if cells.dim() == 3 else cells[:, probe.sides[0] // 2]
    return plane if len(plane) == 1 else plane[_map_heads(probe.heads)]


def _coded(scheme: Scheme, probe: Probe) -> Callable[[int], Tensor] | None:
    """Return what gives the codes of so many positions, `(head, position, channel)`.

    None if the scheme gives a position no code.
    """
    if scheme.acts_at("embed"):
        return lambda count: _embedded(scheme, probe, count)[None]
    if scheme.acts_at("key") and not any(map(scheme.acts_at, BEYOND)):
        return lambda count: _turned(scheme, probe, count)
    return None


def _embedded(scheme: Scheme, probe: Probe, count: int) -> Tensor:
    session = probe.session(scheme, probe.arange(count))
    return session.embed(probe.zeros(1, count, probe.width))[0]


def _turned(scheme: Scheme, probe: Probe, count: int) -> Tensor:
    call = probe.call_of_ones(probe.session(scheme, probe.arange(count)))
    return ask(scheme, "key", call.k, call.k_positions, call)[0]


def _up_to_limit(draw: Callable[[int], Tensor], count: int) -> Tensor:
    """Call `draw` for `count` positions, or for as many as the scheme defines."""
    try:
        return draw(count)
    except UndefinedPositionError as error:
        if not 0 < error.limit < count:
            raise ConfigError(f"{error}; no such code can be drawn") from error
        return draw(error.limit)


def _map_heads(heads: int) -> list[int]:
    """Return which heads a bias map keeps: all, or `MAP_HEADS` spread over them."""
    kept = min(heads, MAP_HEADS)
    return [round(i * (heads - 1) / max(1, kept - 1)) for i in range(kept)]


def _nested(values: Tensor) -> object:
    """Return nested lists of numbers with few digits."""

    def short(item: object) -> object:
        if isinstance(item, list):
            return [short(part) for part in item]
        return float(f"{item:.{DIGITS}g}")

    return short(values.double().cpu().tolist())
