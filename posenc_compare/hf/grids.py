"""Places of tokens on grids, and schemes that rotate or bias by them.

What was measured in a model is compared with a scheme on each grid that as many tokens
may stand on.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.attention import Mask, attention_logits
from posenc_compare.errors import PosencError
from posenc_compare.hf.biases import BY_PLACE, size_of
from posenc_compare.hf.candidates import numbers_of
from posenc_compare.hf.described import Described
from posenc_compare.hf.measure import EXACT
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.schemes.shared.rotation import Rotation, rotate, rotation_table

CELLS = (8, 12)  # patches of an image, if a model reads any size
MOST_BEFORE = 10  # tokens before those of the grid, such as the class token
BLOCK = 2  # patches on a side of those that models merge into one token
FEW = 32  # tokens that are tried before all
BASES = (100.0, 10_000.0)  # usual ones, beside those of the configuration
LAYOUTS = ("half", "adjacent")
TURNED = "rotates queries and keys by their place, and no scheme was found that does"
CHANGED = "changes queries and keys with the place otherwise than by a rotation"
CLASS = "tokens before the grid have biases of their own"
FIXED = "a bias by rows and columns between two places, which no scheme was found for"


@dataclass(frozen=True)
class Grid:
    """Places of tokens: those before the grid, its sides, and `(cell, 2)` ids."""

    before: int
    sides: tuple[int, int]
    cells: Tensor


def grids_of(count: int, *sides: tuple[int, int]) -> Iterator[Grid]:
    """Yield the grids that so many tokens may stand on, in rows or in merged blocks.

    They are squares, or have some `sides`, or those of an image of any size.
    """
    for before in range(min(MOST_BEFORE, count - 3)):
        side = math.isqrt(count - before)
        for high, wide in ((side, side), CELLS, *sides):
            if high * wide == count - before and high > 1:
                for cells in _orders(high, wide):
                    yield Grid(before, (high, wide), cells)


def sides_of(config: Any) -> list[tuple[int, int]]:
    """Return rows and columns of the patches of an image that is no square."""
    image, patch = (getattr(config, f"{of}_size", None) for of in ("image", "patch"))
    if not isinstance(image, list | tuple) or len(image) != 2 or not patch:
        return []
    high, wide = both_sides(patch)
    return [(image[0] // high, image[1] // wide)]


def both_sides(size: Any) -> tuple[int, int]:
    """Return height and width of a size that may be one number for both."""
    if isinstance(size, int):
        return size, size
    if isinstance(size, dict):
        return int(size["height"]), int(size["width"])
    return tuple(size)[-2:]


def _orders(high: int, wide: int) -> Iterator[Tensor]:
    cells = torch.cartesian_prod(torch.arange(high), torch.arange(wide))
    yield cells
    if high % BLOCK == wide % BLOCK == 0:
        blocks = cells.view(high // BLOCK, BLOCK, wide // BLOCK, BLOCK, 2)
        yield blocks.transpose(1, 2).reshape(-1, 2)


def rotation_of(config: Any, states: list[Tensor]) -> Described:
    """Return the description of a rotation that makes equal tokens differ.

    `states` are queries and keys of equal tokens, each `(heads, token, channel)`.
    """
    width = int((states[0] != 0).any(dim=(0, 1)).nonzero().max()) + 1  # without padding
    states = [one[..., :width] for one in states]
    for variant, before, places in _rotations(config, states[0]):
        try:
            off = _left(variant, before, places, states)
        except PosencError:  # a width that the scheme has not
            continue
        if off < math.inf:
            measured = {"tokens before": before or None}
            return Described("all", "rotary", measured, variant, off)
    norms = [one.norm(dim=-1) for one in states]
    kept = all(torch.allclose(n, n[:, :1].expand_as(n), rtol=EXACT) for n in norms)
    return Described("all", "other", note=TURNED if kept else CHANGED)


def _rotations(config: Any, q: Tensor) -> Iterator[tuple[Variant, int, Tensor]]:
    """Yield schemes, how many tokens they leave as they are, and places of the rest."""
    count, width = q.shape[1:]
    moved = int(((q - q[:, :1]).abs().amax(dim=(0, 1)) > EXACT * q.abs().max()).sum())
    bases = {float(one) for one in numbers_of(config.to_dict()) if one > 1}
    for base in sorted({*bases, *BASES}):
        for layout in LAYOUTS:
            turned = {"base": base, "layout": layout}
            for grid in grids_of(count, *sides_of(config)):
                for variant in _in_plane(turned):
                    yield variant, grid.before, grid.cells
            part = {**turned, "fraction": moved / width}
            yield Variant("rope", part), 0, torch.arange(count)


def _in_plane(turned: Mapping[str, Any]) -> Iterator[Variant]:
    for first in ("w", "h"):
        yield Variant("rope_2d", {**turned, "first": first})
    yield Variant("rope_dinov3", {**turned})
    yield Variant("rope_pixel", {**turned, "kind": "eva_02"})


def _left(variant: Variant, before: int, places: Tensor, states: list[Tensor]) -> float:
    """Return how far states are from equal ones that a scheme has rotated.

    It is the largest difference between states that are rotated back, in parts of the
    largest state; infinite if rounding does not explain it. Some tokens are tried
    before all of them.
    """
    width = states[0].shape[-1]
    sides: dict[str, int] = {}
    if places.dim() > 1 and variant.name != "rope_2d":  # which does not measure in them
        high, wide = (places.amax(dim=0) + 1).tolist()
        sides = {"height": high, "width": wide}
    sized = Variant(variant.name, {**variant.options, **sides})
    geometry = Geometry(width, heads=1, head_dim=width, length=len(places))
    scheme: Rotation = sized.build(geometry)
    farthest = places.view(len(places), -1).amax(dim=1)
    for step in (len(places) // FEW + 1, 1):
        back = scheme.phasors(places[::step]).conj()
        table = rotation_table(back, torch.float64, scheme.layout)
        noise = F.pad(2**-21 * farthest[::step], (before, 0))  # of angles in float32
        worst = 0.0
        for one in states:
            rest = rotate(one[None, :, before::step], table, scheme.layout)[0]
            whole = torch.cat([one[:, :before], rest], dim=1)
            off = (whole - whole[:, :1]).abs().amax(dim=(0, 2)) / one.abs().max()
            if (off > EXACT + noise).any():
                return math.inf
            worst = max(worst, float(off.max()))
    return worst


def bias_on_grid(model: nn.Module, module: nn.Module, values: Tensor) -> Described:
    """Return the description of a bias `(heads, query, key)` that is 0 at offset 0.

    It is that of attention `module`, NaN where it is hidden, and may be read from
    weights of the model.
    """
    for grid in grids_of(values.shape[-1]):
        own = values[:, grid.before :, grid.before :]
        table = _by_offset(own, grid)
        if table is None:
            continue
        high, wide = grid.sides
        sides: dict[str, Any] = {"height": high, "width": wide}
        measured = {**sides, "tokens before": grid.before or None}
        note = CLASS if grid.before and not values[:, : grid.before].eq(0).all() else ""
        for variant, scheme in _biases(model, module, table, sides):
            made = _logits(scheme, grid, torch.zeros(1, len(table), high * wide, 2))
            off = size_of(made - own) / size_of(own)
            if off <= EXACT:
                return Described("all", "bias", measured, variant, off, note=note)
        return Described("all", "bias", measured, note=FIXED)
    return Described("all", "bias", note=BY_PLACE)


def _by_offset(own: Tensor, grid: Grid) -> Tensor | None:
    """Return a table `(heads, rows, columns)` of a bias by offset; None if it is none.

    Offsets are query minus key, and the smallest comes first. It is NaN where no query
    sees a key.
    """
    high, wide = grid.sides
    away = grid.cells[:, None] - grid.cells + torch.tensor([high - 1, wide - 1])
    place = (away[..., 0] * (2 * wide - 1) + away[..., 1]).flatten()
    table = own.new_full((len(own), (2 * high - 1) * (2 * wide - 1)), torch.nan)
    seen = ~own[0].isnan().flatten()
    place, values = place[seen], own.flatten(1)[:, seen]
    table[:, place] = values
    same = (table[:, place] - values).abs().max() <= EXACT * values.abs().max()
    return table.unflatten(1, (2 * high - 1, 2 * wide - 1)) if same else None


def _biases(
    model: nn.Module, module: nn.Module, table: Tensor, sides: dict[str, Any]
) -> Iterator[tuple[Variant, Any]]:
    """Yield schemes with the weights of a model that may make the bias of a table."""
    heads, high, wide = table.shape
    geometry = Geometry(2 * heads, heads=heads, length=sides["height"] * sides["width"])
    for rise, fall in _perceptrons(module):
        options = {**sides, "hidden": rise.out_features}
        scheme: Any = Variant("mlp_bias_2d", options).build(geometry).double()
        scheme.rise.load_state_dict(rise.state_dict())
        scheme.fall.weight.data.copy_(fall.weight.data)
        yield Variant("mlp_bias_2d", options), scheme
    if not _is_read(model, table):
        return
    name, weight = "swin", table.flatten(1).T
    if all(torch.allclose(table, table.flip(axis), rtol=EXACT) for axis in (1, 2)):
        name, weight = "levit", table[:, high // 2 :, wide // 2 :].flatten(1)
    scheme = Variant(name, sides).build(geometry).double()
    scheme.table.data.copy_(weight)
    yield Variant(name, sides), scheme


def _perceptrons(module: nn.Module) -> Iterator[tuple[nn.Linear, nn.Linear]]:
    """Yield pairs of layers that make a number per head of two coordinates."""
    layers = [one for one in module.modules() if isinstance(one, nn.Linear)]
    for rise, fall in itertools.pairwise(layers):
        if rise.in_features == 2 and fall.in_features == rise.out_features:
            yield rise, fall


def _is_read(model: nn.Module, table: Tensor) -> bool:
    """Return whether the numbers of a table are those of a trained weight.

    A head's numbers are known but for what is added to all of them.
    """
    values = table.flatten(1)
    for weight in model.parameters():
        if not weight.requires_grad or weight.dim() != 2:
            continue
        own = weight.detach().double()
        own = own if len(own) == len(values) else own.T
        if len(own) == len(values) and own.shape[1] <= 4 * values.shape[1]:
            if all(map(_reads, own, values)):
                return True
    return False


def _reads(weight: Tensor, values: Tensor) -> bool:
    """Return whether all values plus some number are numbers of a weight."""
    sought, known = values[values.isfinite()].unique(), weight.sort().values
    near = EXACT * float(sought.abs().max())
    targets = known[:, None] + (sought - sought[0])
    after = torch.searchsorted(known, targets.contiguous()).clamp(max=len(known) - 1)
    before = (after - 1).clamp(min=0)
    off = torch.minimum((known[after] - targets).abs(), (known[before] - targets).abs())
    return len(sought) > 2 and bool((off <= near).all(dim=1).any())


def _logits(scheme: Any, grid: Grid, q: Tensor) -> Tensor:
    """Return the bias of a scheme on a grid, 0 between a cell and itself.

    `q` is `(1, heads, query, channel)`.
    """
    q = q.double()
    with torch.no_grad():
        made = attention_logits(
            q,
            torch.zeros_like(q),
            scheme=scheme,
            positions=grid.cells,
            mask=Mask(causal=False),
        )[0]
    return made - made.diagonal(dim1=-2, dim2=-1)[..., None]


def decomposed_on_grid(
    module: nn.Module, values: Tensor, q: Tensor | None
) -> Described | None:
    """Return the description of a bias that is that of `decomposed`; None if it is not.

    It is `(heads, query, key)`, 0 at offset 0, and its tables are weights of attention
    `module`. Some models divide `q`, `(heads, query, channel)`, by sqrt(channel).
    """
    if q is None:
        return None
    heads, _, channels = q.shape
    tables = [w for w in module.parameters() if w.dim() == 2 and w.shape[1] == channels]
    for grid in grids_of(values.shape[-1]):
        rows, columns = grid.sides
        own = [one for one in tables if len(one) in (2 * rows - 1, 2 * columns - 1)]
        if grid.before or len(own) != 2:
            continue
        variant = Variant("decomposed", {"height": rows, "width": columns})
        geometry = Geometry(
            heads * channels, heads, head_dim=channels, length=rows * columns
        )
        scheme: Any = variant.build(geometry).double()
        for weight, one in zip((scheme.rows, scheme.columns), own, strict=True):
            weight.data.copy_(one.data)
        for times in (1.0, math.sqrt(channels)):
            made = _logits(scheme, grid, (times * q)[None])
            off = float((made - values).abs().max() / values.abs().max())
            if off <= EXACT:
                return Described("all", "bias", variant.options, variant, off)
    return None
