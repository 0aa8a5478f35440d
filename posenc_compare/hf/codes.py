"""Codes of places that a model of images or sound adds to its tokens.

Two inputs are read. Codes are what is added to different tokens and is the same for
both, if it differs from token to token.
"""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import PosencError
from posenc_compare.hf.described import Described
from posenc_compare.hf.grids import Grid, grids_of, sides_of
from posenc_compare.hf.measure import EXACT, Watch, attentions_of
from posenc_compare.hf.senses import Inputs, read, readable
from posenc_compare.hf.tables import place_of, with_sinusoids
from posenc_compare.schemes import Geometry, Scheme, Variant

ADDED = (torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__iadd__)
ADDED = (*ADDED, Tensor.__radd__)
GROWN = (3, -2)  # patches by which another image is higher and wider
IN_PLANE = ("timm", "moco_v3", "big_vision", "t2t")  # layouts of `sinusoidal_2d`
OTHER = "codes by place, for which no scheme was found"
ENLARGED = "compared on an image that enlarges the table alone"
SMOOTHED = "with antialiasing, which learned_2d does without"
RESIZED = "of images of other sizes the codes are others than those of learned_2d"


class _Sums(Watch):
    """Keep states and what is added to them, while this is entered.

    Logits are left out.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__({m: name for name, m in attentions_of(model).items()})
        self.found: list[tuple[Tensor, Tensor]] = []

    def see(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if func not in ADDED or len(args) < 2:
            return
        x, y = args[:2]
        if _are_states(x) and _are_states(y) and x.shape[-1] == y.shape[-1]:
            if not (self.inside and (x.dim() > 3 or x.shape[-1] == x.shape[-2])):
                self.found.append((x.detach().clone(), y.detach().clone()))


def _are_states(one: object) -> bool:
    return isinstance(one, Tensor) and one.is_floating_point() and one.dim() > 1


def _codes(model: Any, given: Inputs) -> list[Tensor]:
    """Return the codes `(token, channel)` that are added, each once.

    States that attention made are none, even if no input changes them.
    """
    first, second = (_sums(model, given, seed) for seed in (1, 2))
    other = copy.deepcopy(model)
    for module in attentions_of(other).values():
        for weight in module.parameters():
            weight.data *= 2
    third = _sums(other, given, 2)
    found: list[Tensor] = []
    for each in zip(first, second, third, strict=False):
        for place in (0, 1):
            code, *again = (one[place] for one in each)
            x, y, _ = (one[1 - place] for one in each)
            if x.shape != y.shape or torch.equal(x, y):
                continue
            rows = code.flatten(0, -2)
            fits = len(rows) <= x.shape[:-1].numel() and all(map(code.equal, again))
            varies = not torch.equal(rows, rows[:1].expand_as(rows))
            if fits and varies and not any(map(rows.equal, found)):
                found.append(rows)
    return found


def _sums(model: Any, given: Inputs, seed: int) -> list[tuple[Tensor, Tensor]]:
    with _Sums(model) as sums:
        read(model, given, seed)
    return sums.found


class _Source(NamedTuple):
    """A weight `(row, channel)` whose rows may be codes."""

    name: str
    rows: Tensor
    trained: bool


def codes_in(model: Any, given: Inputs) -> list[Described]:
    """Return the codes of places that a small random model adds to tokens."""
    rows: list[Described] = []
    for number, code in enumerate(_codes(model, given)):
        rows.append(_described(model, number, code, {one.layers for one in rows}))
    return rows


def _weights(model: nn.Module, width: int) -> Iterator[_Source]:
    """Yield the weights of a model that have rows of some width."""
    named = itertools.chain(model.named_parameters(), model.named_buffers())
    for name, weight in named:
        if weight.dim() > 1 and weight.shape[-1] == width:
            several = weight.dim() > 3 and weight.shape[1] == 1  # one for each layer
            for part in weight if several else [weight]:
                rows = part.detach().flatten(0, -2)
                yield _Source(place_of(name), rows, weight.requires_grad)


def _first_row(code: Tensor, rows: Tensor) -> int | None:
    """Return from which row on rows are a code; None if they are not."""
    for first in (rows == code[0]).all(dim=-1).nonzero().flatten().tolist():
        if torch.equal(rows[first : first + len(code)], code):
            return first
    return None


def _described(model: Any, number: int, code: Tensor, known: set[str]) -> Described:
    """Return the description of a code, by the table that it is read from.

    Tables that are `known` come last, for two may be the same.
    """
    weights = [*_weights(model, code.shape[-1])]
    for one in sorted(weights, key=lambda weight: weight.name in known):
        first = _first_row(code, one.rows)
        if first is not None:
            return _read(model, number, code, one, first)
    for one in weights:
        row = Described(one.name, "table", {"rows": len(one.rows)})
        if one.trained and (found := _interpolated(model, row, code, one.rows)):
            return found
    if found := _by_axes(model, code.double()):
        return found
    return _fixed(Described("all", "table"), code.double(), 0)


def _by_axes(model: nn.Module, code: Tensor) -> Described | None:
    """Return the description of a code with trained halves for row and column."""
    half = code.shape[-1] // 2
    for grid in grids_of(len(code)):
        image = code[grid.before :].view(*grid.sides, -1)
        columns, rows = image[0, :, :half], image[:, 0, half:]
        own = [one.rows.double() for one in _weights(model, half) if one.trained]
        read = [any(_first_row(x, w) == 0 for w in own) for x in (columns, rows)]
        high, wide = grid.sides
        made = [columns.expand(high, -1, -1), rows[:, None].expand(-1, wide, -1)]
        if all(read) and torch.equal(torch.cat(made, dim=-1), image):
            sides = {"height": high, "width": wide}
            return Described("all", "table", sides, Variant("learned_axes", sides))
    return None


def _read(
    model: Any, number: int, code: Tensor, source: _Source, first: int
) -> Described:
    """Return the description of a code that is rows of a weight, from `first` on."""
    count = len(source.rows)
    row = Described(source.name, "table", {"rows": count, "first row": first})
    if not source.trained:
        return _fixed(row, code.double(), first)
    learned = replace(row, variant=Variant("learned", {"length": count}))
    return _resized(model, number, learned, source.rows)


def _fixed(row: Described, code: Tensor, first: int) -> Described:
    """Return a row with the sinusoids that a code is, if it is some."""
    found = with_sinusoids(row, code, first)
    if found.variant is None:
        found = _in_plane(row, code)
    return found if found.variant else replace(row, note=OTHER)


def _in_plane(row: Described, code: Tensor) -> Described:
    """Return a row with the sinusoids of two axes that a code is, if it is some."""
    for grid in grids_of(len(code)):
        if not code[: grid.before].eq(0).all():
            continue
        variants = [Variant("sinusoidal_2d", {"layout": one}) for one in IN_PLANE]
        for variant in (*variants, Variant("sinusoidal_detr")):
            off = _off(variant, grid, code[grid.before :])
            if off <= EXACT:
                measured = {**row.measured, "tokens before": grid.before or None}
                return replace(
                    row, measured=measured, variant=variant, off=off, note=""
                )
    return row


def _off(
    variant: Variant, grid: Grid, code: Tensor, table: Tensor | None = None
) -> float:
    """Return how far codes of all cells are from those of a scheme."""
    width = code.shape[-1]
    try:
        geometry = Geometry(width, heads=1, length=len(grid.cells))
        scheme: Scheme = variant.build(geometry).double()
        if table is not None:
            scheme.table.data.copy_(table.view(scheme.table.shape))  # type: ignore
        ids = scheme.positions(grid.cells)
        with torch.no_grad():
            made = scheme.embed(torch.zeros_like(code), ids)
    except PosencError:  # a width that the scheme has not
        return float("inf")
    return float((made - code).abs().max() / code.abs().max())


def _resized(model: Any, number: int, row: Described, table: Tensor) -> Described:
    """Return a row with `learned_2d`, if an image of another size has its codes.

    `number` is that of the codes among all that are added.
    """
    try:
        code = _codes(model, readable(model, GROWN))[number]
    except Exception:  # whatever a model makes of another size
        return row
    if code.shape[-1] != table.shape[-1] or _first_row(code, table) is not None:
        return row
    return _interpolated(model, row, code, table) or replace(row, note=RESIZED)


def _interpolated(
    model: Any, row: Described, code: Tensor, table: Tensor
) -> Described | None:
    """Return a row with `learned_2d`, if a code is that of a table; None if not."""
    code, table = code.double(), table.double()
    for own in grids_of(len(table), *sides_of(model.config)):
        high, wide = own.sides
        grown = (high + GROWN[0], wide + GROWN[1])
        for grid in grids_of(len(code), grown):
            if grid.before not in (0, own.before):
                continue
            rows = code[grid.before :], table[own.before :]
            for resize in ("bicubic", "bilinear"):
                options = {"height": high, "width": wide, "resize": resize}
                variant = Variant("learned_2d", options)
                off = _off(variant, grid, *rows)
                if off <= EXACT:
                    grows = min(grid.sides[0] - high, grid.sides[1] - wide) > 0
                    return replace(row, variant=variant, off=off, note=ENLARGED * grows)
                if _smoothed(*rows, own.sides, grid, resize):
                    learned = Variant("learned", {"length": len(table)})
                    note = f"images of other sizes: {resize}, {SMOOTHED}"
                    return replace(row, variant=learned, note=note)
    return None


def _smoothed(
    code: Tensor, table: Tensor, sides: tuple[int, int], grid: Grid, resize: str
) -> bool:
    """Return whether a code is a table that was resized with antialiasing."""
    image = table.T.reshape(1, -1, *sides)
    made = F.interpolate(image, grid.sides, mode=resize, antialias=True)
    made = made[0, :, grid.cells[:, 0], grid.cells[:, 1]].T
    return bool((made - code).abs().max() <= EXACT * code.abs().max())
